package tsblock

import "hash/crc32"

// castagnoli is the CRC32 table of all checksums in TSDB files.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)
