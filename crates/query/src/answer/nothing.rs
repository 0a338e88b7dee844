//! Why an answer is empty.
