// Every type in every place, for an independent encoder.
struct Leaf {
  1: bool yes,
  2: i32 number,
}

struct Everything {
  1: bool yes,
  2: bool no,
  3: byte small,
  4: i16 short,
  5: i32 middle,
  6: i64 long,
  7: double real,
  8: binary text,
  9: Leaf leaf,
  10: list<bool> flags,
  11: list<i64> numbers,
  12: set<binary> texts,
  13: map<binary, Leaf> leaves,
  14: map<i32, double> reals,
  15: list<list<Leaf>> nested,
  40: bool far,
  41: map<binary, binary> empty,
  -3: i32 before,
  32000: list<byte> many,
}

service Service {
  Everything call(1: Everything all),
}
