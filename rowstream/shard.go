package rowstream

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A Shard is a share of a table's rows: those whose column's bytes have a CRC-32 that leaves
// Index-1 when divided by Count. MySQL says the same as CRC32(column) % Count = Index-1 on
// the column's text, so that a share can be looked at in SQL. NULL belongs to the first.
type Shard struct {
	Index int // 1 to Count
	Count int
}

// ParseShard reads "2/5".
func ParseShard(text string) (Shard, error) {
	i, n, ok := strings.Cut(text, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || index < 1 || index > count {
		return Shard{}, fmt.Errorf("shard %q is not of the form i/n with 1 <= i <= n, such as 2/5", text)
	}
	return Shard{Index: index, Count: count}, nil
}

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Has reports whether the rows with this value are of the share. It does not allocate.
func (s Shard) Has(value []byte) bool { return ShardKey(value)%uint32(s.Count) == uint32(s.Index-1) }

// ShardKey is the number that shards are cut by: MySQL's CRC32 of the value's bytes, and 0
// for NULL. It does not allocate.
func ShardKey(value []byte) uint32 { return crc32.ChecksumIEEE(value) }
