//! Whole numbers at their exact width, and bounds-checked readers.

use super::PageError;

/// Zero bytes after the packed section in memory, so that [`Bits::get`] and [`Bits::unpack`] always read a whole window.
pub(super) const PADDING: usize = OCTET_WINDOW;

/// Bytes of which eight numbers are read: they begin at a byte, are at most [`WIDE_BITS`] bits each, and of the last one eight bytes
/// are read.
const OCTET_WINDOW: usize = 64;
/// Wider numbers may be in nine bytes.
const WIDE_BITS: u32 = 57;

/// Numbers that are unpacked at once: those of a word of a set of rows.
pub const BLOCK_ROWS: usize = u64::BITS as usize;

/// The bits of `n`: 0 for 0, at most 64.
pub(super) fn width_of(n: u64) -> u32 {
    u64::BITS - n.leading_zeros()
}

/// Appends `values` with `width` bits each, the lowest bit first; the last byte is padded with 0.
pub(super) fn pack(out: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    if width == 0 {
        return;
    }
    let (mut word, mut filled) = (0u64, 0);
    for value in values {
        word |= value << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= 64;
            word = if filled == 0 { 0 } else { value >> (width - filled) };
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// An array of numbers in the packed section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    pub(super) start: usize,
    pub(super) width: u32,
}

impl Bits {
    /// Bits of each number, at most 64.
    pub(super) fn width(&self) -> u32 {
        self.width
    }

    /// The number at `index`. Positions outside the section read as 0.
    #[inline]
    pub(super) fn get(&self, packed: &[u8], index: usize) -> u64 {
        if self.width == 0 {
            return 0;
        }
        let bit = index * self.width as usize;
        let Some(rest) = packed.get(self.start + bit / 8..) else { return 0 };
        let word = if self.width <= WIDE_BITS {
            rest.first_chunk().map_or(0, |window| u64::from_le_bytes(*window)) >> (bit % 8)
        } else {
            // Up to 71 bits are read; after the shift the lower half contains the number.
            (rest.first_chunk().map_or(0, |window| u128::from_le_bytes(*window)) >> (bit % 8)) as u64
        };
        word & (u64::MAX >> (64 - self.width))
    }
}

impl Bits {
    /// The numbers from `index` on, as many as `out` has places. Positions outside the section read as 0.
    #[inline]
    pub(super) fn unpack(&self, packed: &[u8], index: usize, out: &mut [u64]) {
        // Eight numbers are a whole number of bytes, whatever their width.
        let lead = (index.next_multiple_of(8) - index).min(out.len());
        let first = (index + lead) * self.width as usize / 8;
        let bytes = packed.get(self.start + first..).unwrap_or_default();
        let octets = UNPACKED.get(self.width as usize).map_or(0, |unpack| unpack(bytes, out[lead..].as_chunks_mut().0));
        let (before, rest) = out.split_at_mut(lead);
        let behind = &mut rest[8 * octets..];
        before.iter_mut().zip(index..).for_each(|(number, index)| *number = self.get(packed, index));
        behind
            .iter_mut()
            .zip(index + lead + 8 * octets..)
            .for_each(|(number, index)| *number = self.get(packed, index));
    }
}

/// Unpacks as many whole octets of numbers as there are bytes for, and returns how many.
type UnpackOctets = fn(&[u8], &mut [[u64; 8]]) -> usize;

/// How numbers of each width up to [`WIDE_BITS`] are unpacked. Of a width that the compiler knows, each number is at a known place.
static UNPACKED: [UnpackOctets; WIDE_BITS as usize + 1] = {
    macro_rules! of_widths {
        ($($width:literal)*) => { [$(unpack_octets::<$width>),*] };
    }
    of_widths!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
        39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57)
};

fn unpack_octets<const WIDTH: usize>(bytes: &[u8], out: &mut [[u64; 8]]) -> usize {
    let mask = u64::MAX.checked_shr(64 - WIDTH as u32).unwrap_or(0);
    for (number, octet) in out.iter_mut().enumerate() {
        let Some(window) = bytes.get(number * WIDTH..).and_then(|rest| rest.first_chunk::<OCTET_WINDOW>()) else {
            return number;
        };
        for (at, place) in octet.iter_mut().enumerate() {
            let bit = at * WIDTH;
            let word = window.get(bit / 8..).and_then(|rest| rest.first_chunk());
            *place = word.map_or(0, |word| u64::from_le_bytes(*word)) >> (bit % 8) & mask;
        }
    }
    out.len()
}

impl Bits {
    /// Passes `count` numbers from the first one on.
    #[inline]
    pub(super) fn each(&self, packed: &[u8], count: usize, mut each: impl FnMut(usize, u64)) {
        let mut room = [0; BLOCK_ROWS];
        for from in (0..count).step_by(BLOCK_ROWS) {
            let block = &mut room[..BLOCK_ROWS.min(count - from)];
            self.unpack(packed, from, block);
            block.iter().zip(from..).for_each(|(number, index)| each(index, *number));
        }
    }

    /// Whether all of `count` numbers are below `end`. They are read only if their width leaves that open.
    pub(super) fn are_below(&self, packed: &[u8], count: usize, end: usize) -> bool {
        if u64::MAX.checked_shr(u64::BITS - self.width).unwrap_or(0) < end as u64 {
            return true;
        }
        let (mut room, mut most) = ([0; BLOCK_ROWS], 0);
        for from in (0..count).step_by(BLOCK_ROWS) {
            let block = &mut room[..BLOCK_ROWS.min(count - from)];
            self.unpack(packed, from, block);
            most = block.iter().fold(most, |most, number| most.max(*number));
        }
        most < end as u64
    }
}

/// Appends `n` with seven bits a byte, the lowest first; the top bit marks that another byte follows.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a signed number (zigzag); numbers near 0 are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, n: i64) {
    put_varint(out, (n << 1 ^ n >> 63).cast_unsigned());
}

/// Reads from the front of a slice.
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { bytes }
    }

    /// The unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], PageError> {
        let (head, rest) = self.bytes.split_at_checked(length).ok_or(PageError::Damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], PageError> {
        let (head, rest) = self.bytes.split_first_chunk::<N>().ok_or(PageError::Damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(*head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, PageError> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, PageError> {
        if let [byte @ 0..0x80, rest @ ..] = self.bytes {
            self.bytes = rest;
            return Ok((*byte).into());
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, PageError> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(PageError::Damaged("a number is longer than 64 bits"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, PageError> {
        let n = self.varint()?;
        Ok((n >> 1).cast_signed() ^ -((n & 1).cast_signed()))
    }

    /// Reads a count, at most `most`.
    pub(crate) fn count(&mut self, most: usize) -> Result<usize, PageError> {
        let n = usize::try_from(self.varint()?).ok().filter(|&n| n <= most);
        n.ok_or(PageError::Damaged("a count exceeds the remaining bytes"))
    }
}

/// A piece of a page's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextSpan {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl TextSpan {
    pub(super) fn new(start: usize, end: usize) -> Result<TextSpan, PageError> {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Ok(TextSpan { start, end }),
            _ => Err(PageError::Damaged("its text is larger than 4 GiB")),
        }
    }

    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Numbers of any width are read back, and use only their bits, rounded up to a byte.
        #[test]
        fn packed_numbers_round_trip(width in 0u32..=64, values in proptest::collection::vec(any::<u64>(), 0..200)) {
            let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
            let values: Vec<u64> = values.into_iter().map(|v| v & mask).collect();
            let mut packed = vec![0xff; 3];
            pack(&mut packed, width, values.iter().copied());
            prop_assert_eq!(packed.len(), 3 + (values.len() * width as usize).div_ceil(8));
            packed.extend([0xff; PADDING]);
            let bits = Bits { start: 3, width };
            for (at, &value) in values.iter().enumerate() {
                prop_assert_eq!(bits.get(&packed, at), value);
            }
            for from in 0..values.len() {
                let mut block = [7; 64];
                let block = &mut block[..(values.len() - from).min(64)];
                bits.unpack(&packed, from, block);
                prop_assert_eq!(&*block, &values[from..from + block.len()]);
            }
        }

        /// Numbers of variable length are read back, with any sign.
        #[test]
        fn varints_round_trip(unsigned: u64, signed: i64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, unsigned);
            put_signed(&mut bytes, signed);
            let mut reader = ByteReader::new(&bytes);
            prop_assert_eq!(reader.varint().ok(), Some(unsigned));
            prop_assert_eq!(reader.signed().ok(), Some(signed));
            prop_assert!(reader.byte().is_err());
        }
    }
}
