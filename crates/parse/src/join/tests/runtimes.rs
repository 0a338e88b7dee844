//! The failures of runtimes, as each writes them without a logger: one record each, and no line of another.

use super::texts;

/// The name of a case, and its records.
const CASES: &[(&str, &[&str])] = &[
    (
        "py last resort",
        &[
            "something failed\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "next line",
            "other",
        ],
    ),
    (
        "py print then traceback",
        &[
            "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "again",
        ],
    ),
    (
        "py chained",
        &[
            "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "x",
        ],
    ),
    (
        "py ERROR:root",
        &[
            "ERROR:root:failed\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "INFO:root:next",
        ],
    ),
    (
        "py two traces",
        &[
            "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "end",
        ],
    ),
    ("py syntaxerror", &["  File \"/app/a.py\", line 1\n    x =\n       ^\nSyntaxError: invalid syntax", "next"]),
    (
        "py exception ignored",
        &[
            "Exception ignored in: <function X.__del__ at 0x7f>\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "next",
        ],
    ),
    (
        "py thread",
        &[
            "Exception in thread Thread-1 (f):\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "next",
        ],
    ),
    (
        "py asyncio",
        &[
            "Task exception was never retrieved\nfuture: <Task finished name='Task-1' coro=<f() done> exception=ValueError()>\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "next",
        ],
    ),
    (
        "py note",
        &[
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    raise E\n           ^^^^\nE: x",
            "next",
        ],
    ),
    (
        "py logging error",
        &[
            "--- Logging error ---\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value\nCall stack:\n  File \"a.py\", line 5, in <module>\n    logging.info(\"x\")\nMessage: 'x %s'\nArguments: (1, 2)",
            "next",
        ],
    ),
    ("py warning", &["/app/a.py:3: DeprecationWarning: old\n  f()", "next"]),
    (
        "py group",
        &[
            "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1, in <module>\n  | ExceptionGroup: eg (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | ValueError: 1\n    +---------------- 2 ----------------\n    | TypeError: 2\n    +------------------------------------",
            "next",
        ],
    ),
    (
        "go panic",
        &[
            "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\nmain.f(...)\n\t/app/main.go:5\nmain.main()\n\t/app/main.go:9 +0x1d\nexit status 2",
            "next",
        ],
    ),
    (
        "go panic sig",
        &[
            "panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x47]\n\ngoroutine 18 [running]:\nmain.(*T).f(0x0)\n\t/app/main.go:5 +0x1d\ncreated by main.main in goroutine 1\n\t/app/main.go:9 +0x25",
            "next",
        ],
    ),
    (
        "go fatal",
        &[
            "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\nmain.main()\n\t/app/main.go:5 +0x1d\nexit status 2",
            "next",
        ],
    ),
    (
        "go debug.PrintStack",
        &[
            "goroutine 1 [running]:\nruntime/debug.Stack()\n\t/usr/stack.go:24 +0x5e\nmain.main()\n\t/app/main.go:5 +0x1d",
            "next",
        ],
    ),
    (
        "go race",
        &[
            "==================\nWARNING: DATA RACE\nRead at 0x00c000 by goroutine 7:\n  main.main.func1()\n      /app/main.go:5 +0x1d\n\nPrevious write at 0x00c000 by main goroutine:\n  main.main()\n      /app/main.go:9 +0x2d\n==================",
            "next",
        ],
    ),
    (
        "go recovered",
        &[
            "panic: first [recovered]\n\tpanic: second\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:5 +0x1d",
            "next",
        ],
    ),
    (
        "go SIGQUIT",
        &[
            "SIGQUIT: quit\nPC=0x46 m=0 sigcode=0\n\ngoroutine 0 [idle]:\nruntime.futex()\n\t/usr/x.s:5 +0x1d\n\nrax    0xca\nrbx    0x0\nrip    0x46",
            "next",
        ],
    ),
    (
        "node uncaught",
        &[
            "/app/a.js:3\n    throw new Error(\"boom\");\n    ^\n\nError: boom\n    at f (/app/a.js:3:11)\n    at Object.<anonymous> (/app/a.js:7:1)\n\nNode.js v20.1.0",
            "next",
        ],
    ),
    (
        "node console.error",
        &["Error: boom\n    at f (/app/a.js:3:11)\n    at Object.<anonymous> (/app/a.js:7:1)", "next"],
    ),
    (
        "node text then err",
        &["request failed Error: boom\n    at f (/app/a.js:3:11)\n    at Object.<anonymous> (/app/a.js:7:1)", "next"],
    ),
    (
        "node code obj",
        &[
            "node:internal/modules/cjs/loader:1080\n  throw err;\n  ^\n\nError: Cannot find module 'x'\nRequire stack:\n- /app/a.js\n    at Module._resolveFilename (node:internal/modules/cjs/loader:1077:15) {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/app/a.js' ]\n}\n\nNode.js v18.0.0",
            "next",
        ],
    ),
    (
        "node unhandled",
        &[
            "node:internal/process/promises:288\n            triggerUncaughtException(err, true /* fromPromise */);\n            ^\n\nError: boom\n    at f (/app/a.js:3:11)\n    at Object.<anonymous> (/app/a.js:7:1)\n\nNode.js v20.1.0",
            "next",
        ],
    ),
    (
        "node unhandled str",
        &[
            "node:internal/process/promises:288\n            triggerUncaughtException(err, true /* fromPromise */);\n            ^\n\n[UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a catch block. The promise rejected with the reason \"x\".] {\n  code: 'ERR_UNHANDLED_REJECTION'\n}\n\nNode.js v20.1.0",
            "next",
        ],
    ),
    (
        "node warn",
        &[
            "(node:123) UnhandledPromiseRejectionWarning: Error: x\n    at f (/app/a.js:3:11)",
            "(node:123) [DEP0018] DeprecationWarning: old",
            "next",
        ],
    ),
    (
        "node cause",
        &["Error: outer\n    at f (/app/a.js:3:11) {\n  [cause]: Error: inner\n      at g (/app/a.js:1:1)\n}", "next"],
    ),
    (
        "node file esm",
        &[
            "file:///app/a.mjs:1\nthrow new Error(\"x\");\n^\n\nError: x\n    at file:///app/a.mjs:1:7\n\nNode.js v20.1.0",
            "next",
        ],
    ),
    ("deno", &["error: Uncaught (in promise) Error: x\n    at file:///a.ts:1:7", "next"]),
    (
        "java thread",
        &[
            "Exception in thread \"main\" java.lang.RuntimeException: boom\n\tat a.B.f(B.java:3)\n\tat a.B.main(B.java:9)\nCaused by: java.io.IOException: x\n\tat a.C.g(C.java:1)\n\t... 2 more",
            "next",
        ],
    ),
    (
        "java print",
        &[
            "java.lang.RuntimeException: boom\n\tat a.B.f(B.java:3)\n\tat a.B.main(B.java:9)\nCaused by: java.io.IOException: x\n\tat a.C.g(C.java:1)\n\t... 2 more",
            "next",
        ],
    ),
    (
        "java text then",
        &[
            "request failed\njava.lang.RuntimeException: boom\n\tat a.B.f(B.java:3)\n\tat a.B.main(B.java:9)\nCaused by: java.io.IOException: x\n\tat a.C.g(C.java:1)\n\t... 2 more",
            "next",
        ],
    ),
    (
        "java suppressed",
        &[
            "java.lang.Exception: x\n\tat a.B.f(B.java:3)\n\tSuppressed: java.io.IOException: y\n\t\tat a.B.g(B.java:4)",
            "next",
        ],
    ),
    (
        "kotlin",
        &[
            "Exception in thread \"DefaultDispatcher-worker-1\" java.lang.Exception: x\n\tat AKt$f$1.invokeSuspend(A.kt:3)\n\tSuppressed: kotlinx.coroutines.DiagnosticCoroutineContextException: [x]",
            "next",
        ],
    ),
    (
        "rust",
        &[
            "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds: the len is 3 but the index is 5\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            "next",
        ],
    ),
    (
        "rust old",
        &[
            "thread 'main' panicked at 'boom', src/main.rs:2:5\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            "next",
        ],
    ),
    (
        "rust tid",
        &[
            "thread 'main' (12345) panicked at src/main.rs:4:5:\nboom\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            "next",
        ],
    ),
    (
        "rust unnamed",
        &[
            "thread '<unnamed>' panicked at src/main.rs:4:5:\nassertion `left == right` failed: x\n  left: 1\n right: 2\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            "next",
        ],
    ),
    (
        "rust anyhow",
        &[
            "Error: failed to read config\n\nCaused by:\n    0: could not open\n    1: No such file or directory (os error 2)",
            "next",
        ],
    ),
    (
        "rust two",
        &[
            "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds: the len is 3 but the index is 5",
            "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds: the len is 3 but the index is 5",
            "next",
        ],
    ),
    (
        "rust unwrap multi",
        &[
            "thread 'main' panicked at src/main.rs:4:5:\ncalled `Result::unwrap()` on an `Err` value: Os { code: 2 }\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            "next",
        ],
    ),
    ("ruby", &["a.rb:1:in 'Object#foo': boom (RuntimeError)\n\tfrom a.rb:4:in '<main>'", "next"]),
    (
        "ruby full",
        &[
            "/app/a.rb:1:in `foo': boom (RuntimeError)\n\tfrom /app/a.rb:4:in `bar'\n\tfrom /app/a.rb:7:in `<main>'",
            "next",
        ],
    ),
    (
        "ruby chain",
        &[
            "a.rb:4:in 'Object#rescue in foo': second (RuntimeError)\n\tfrom a.rb:1:in 'Object#foo'\n\tfrom a.rb:8:in '<main>'\na.rb:2:in 'Object#bar': first (ArgumentError)\n\tfrom a.rb:2:in 'Object#foo'\n\tfrom a.rb:8:in '<main>'",
            "a.rb:9:in 'Object#other': not handled (Shop::LateError)\n\tfrom a.rb:10:in '<main>'",
            "a.rb:9:in 'Object#other': not handled (Shop::LateError)\n\tfrom a.rb:10:in '<main>'",
            "next",
        ],
    ),
    (
        "ruby chain through a method",
        &[
            "/app/a.rb:9:in `warn': third (KeyError)\n\tfrom /app/a.rb:4:in `ensure in foo'\n\tfrom /app/a.rb:8:in `<main>'\n/app/a.rb:4:in `rescue in foo': second (RuntimeError)\n\tfrom /app/a.rb:1:in `foo'\n/app/a.rb:2:in `bar': first (ArgumentError)\n\tfrom /app/a.rb:8:in `<main>'",
            "next",
        ],
    ),
    (
        "ruby rev",
        &[
            "Traceback (most recent call last):\n\t1: from a.rb:4:in `<main>'\na.rb:1:in `foo': boom (RuntimeError)",
            "next",
        ],
    ),
    (
        "ruby thread",
        &[
            "#<Thread:0x0001 a.rb:1 run> terminated with exception (report_on_exception is true):\na.rb:1:in 'block in <main>': boom (RuntimeError)\n\tfrom a.rb:2:in 'x'",
            "next",
        ],
    ),
    (
        "php",
        &[
            "PHP Fatal error:  Uncaught Exception: boom in /app/a.php:3\nStack trace:\n#0 /app/a.php(7): f()\n#1 {main}\n  thrown in /app/a.php on line 3",
            "next",
        ],
    ),
    (
        "php nolog",
        &[
            "Fatal error: Uncaught Exception: boom in /app/a.php:3\nStack trace:\n#0 /app/a.php(7): f()\n#1 {main}\n  thrown in /app/a.php on line 3",
            "next",
        ],
    ),
    (
        "php next",
        &[
            "PHP Fatal error:  Uncaught Exception: a in /app/a.php:3\nStack trace:\n#0 {main}\n\nNext Exception: b in /app/a.php:5\nStack trace:\n#0 {main}\n  thrown in /app/a.php on line 5",
            "next",
        ],
    ),
    ("php plain exc", &["something\nStack trace:\n#0 /app/a.php(7): f()\n#1 {main}", "next"]),
    (
        "dotnet",
        &[
            "Unhandled exception. System.InvalidOperationException: boom\n ---> System.IO.IOException: inner\n   at A.g() in /a.cs:line 1\n   --- End of inner exception stack trace ---\n   at Program.Main() in /app/Program.cs:line 5",
            "next",
        ],
    ),
    (
        "dotnet print",
        &["System.InvalidOperationException: boom\n   at Program.Main() in /app/Program.cs:line 5", "next"],
    ),
    (
        "dotnet text then",
        &[
            "request failed\nSystem.InvalidOperationException: boom\n   at Program.Main() in /app/Program.cs:line 5",
            "next",
        ],
    ),
    ("dotnet ff", &["Unhandled Exception: System.Exception: boom\n   at A.f()", "next"]),
    (
        "dotnet async",
        &["System.Exception: x\n   at A.f()\n--- End of stack trace from previous location ---\n   at A.g()", "next"],
    ),
    ("elixir", &["** (RuntimeError) boom\n    a.exs:1: (file)", "next"]),
    ("perl", &["boom at a.pl line 3.\n\tmain::f() called at a.pl line 7", "next"]),
    (
        "lua",
        &[
            "lua: a.lua:1: boom\nstack traceback:\n\t[C]: in function 'error'\n\ta.lua:1: in main chunk\n\t[C]: in ?",
            "next",
        ],
    ),
    (
        "julia",
        &[
            "ERROR: LoadError: boom\nStacktrace:\n [1] error(s::String)\n   @ Base ./error.jl:35\n [2] top-level scope\n   @ /app/a.jl:1\nin expression starting at /app/a.jl:1",
            "next",
        ],
    ),
    ("haskell", &["a: boom\nCallStack (from HasCallStack):\n  error, called at a.hs:1:8 in main:Main", "next"]),
    (
        "a failure at once after it",
        &[
            "it failed\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "again it failed\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "done",
        ],
    ),
    (
        "rust, a stack that overflowed",
        &["thread 'main' has overflowed its stack\nfatal runtime error: stack overflow", "next"],
    ),
    (
        "php, a warning",
        &[
            "PHP Warning:  Undefined variable $x in /app/a.php on line 3\nPHP Stack trace:\nPHP   1. {main}() /app/a.php:0\nPHP   2. f() /app/a.php:7",
            "PHP Warning:  x",
        ],
    ),
    (
        "python, asyncio with a level",
        &[
            "ERROR:asyncio:Task exception was never retrieved\nfuture: <Task finished coro=<f() done>>\nTraceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "INFO:root:next",
        ],
    ),
    (
        "no failure before the trace",
        &[
            "starting up",
            "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\n    f()\nValueError: no value",
            "retrying",
        ],
    ),
    (
        "no failure before the exception",
        &[
            "starting up",
            "java.lang.RuntimeException: boom\n\tat a.B.f(B.java:3)\n\tat a.B.main(B.java:9)\nCaused by: java.io.IOException: x\n\tat a.C.g(C.java:1)\n\t... 2 more",
            "retrying",
        ],
    ),
    ("errors without traces", &["ValueError: no value", "KeyError: x", "a.b.Error: x"]),
    (
        "words",
        &["one failed", "two", "- three", "Next four", "Message: five", "rax 0x1f", "PHP   6", "Call stack: seven"],
    ),
    ("the rest of a trace, and another", &["\t... 1 more", "Traceback (most recent call last):\n  x"]),
    ("a frame and a heading", &["==================\n  Title", "words", "# one", "Next one"]),
];

#[test]
fn the_trace_of_a_failure_is_one_record_and_other_lines_stay_apart() {
    for (name, records) in CASES {
        assert_eq!(texts(&(records.join("\n") + "\n")), *records, "{name}");
    }
}
