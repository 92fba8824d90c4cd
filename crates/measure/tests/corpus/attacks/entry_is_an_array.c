// attack: 20, 30
// how: defines the entry as an array of machine code; hopes that a name is a name
// refused as: wrong_signature
const unsigned char dgemm[] = {0x31, 0xc0, 0xc3};
