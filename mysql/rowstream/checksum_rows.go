package rowstream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
	"math"
	"strconv"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// SumRead computes sums by reading the rows, for servers that cannot compute them.
func SumRead(ctx context.Context, r Reader, t *Table, c Chunk, o SumOptions) iter.Seq2[RowSum, error] {
	return func(yield func(RowSum, error) bool) {
		ro := ReadOptions{Where: o.Where}
		if o.Plan != nil {
			ro.Plan = &Plan{Where: o.Plan.Where, Match: o.Plan.Match}
		}
		if err := o.checkRead(t, c); err != nil {
			yield(RowSum{}, err)
			return
		}
		s := newRowSummer(t, o.Columns)
		for b, err := range r.Read(ctx, t, c, ro) {
			for at := 0; err == nil && at < len(b.Bytes); {
				var sum RowSum
				if at, err = b.Row(at, &s.row); err == nil {
					sum, err = s.next()
				}
				if err == nil && !yield(sum, nil) {
					return
				}
			}
			if err != nil {
				yield(RowSum{}, err)
				return
			}
		}
	}
}

// checkRead returns an error if only a server can compute the sums.
func (o *SumOptions) checkRead(t *Table, c Chunk) error {
	for _, expr := range o.Exprs {
		if expr != "" {
			return fmt.Errorf("sum up chunk %d of %s: %s is computed by servers alone, and the conditions are not in SQL", c.Number, t.FullName(), expr)
		}
	}
	for _, i := range o.Columns {
		if i >= len(t.Columns) {
			return fmt.Errorf("sum up chunk %d of %s: its generated column %s is not read, and the conditions are not in SQL", c.Number, t.FullName(), t.columnOf(i).Name)
		}
	}
	return nil
}

// A rowSummer computes sumExpr for rows of ReadExpr. It reuses its memory and must not be used concurrently.
type rowSummer struct {
	t       *Table
	columns []int
	forms   []sumForm // of columns
	bit     []bool    // of columns: the value is of type BIT
	sha     hash.Hash

	row    mysqlwire.TextRow
	key    mysqlwire.TextRow
	bits   [][]byte // numbers of BIT columns of the key
	text   []byte
	digest []byte
}

func newRowSummer(t *Table, columns []int) *rowSummer {
	s := &rowSummer{t: t, columns: columns, sha: sha256.New(), key: make(mysqlwire.TextRow, len(t.Key)), bits: make([][]byte, len(t.Key))}
	for _, i := range columns {
		c := &t.Columns[i]
		s.forms, s.bit = append(s.forms, c.sumForm()), append(s.bit, c.kind() == kindBit)
	}
	return s
}

// next returns the key and sum of the current row.
func (s *rowSummer) next() (RowSum, error) {
	key, err := s.keyOf(s.row)
	if err != nil {
		return RowSum{}, err
	}
	return RowSum{key, s.sum(s.row)}, nil
}

// sum returns a row's sum. It does not allocate after rows of the same width.
func (s *rowSummer) sum(row mysqlwire.TextRow) uint64 {
	text := s.text[:0]
	for _, i := range s.columns {
		if s.t.Columns[i].Nullable {
			null := byte('0')
			if row[i] == nil {
				null = '1'
			}
			text = append(text, null)
		}
	}
	begun := len(text) > 0
	for n, i := range s.columns {
		v := row[i]
		if v == nil {
			continue
		}
		if begun {
			text = append(text, ',')
		}
		begun = true
		switch form := s.forms[n]; {
		case form == sumDigest:
			text = hex.AppendEncode(text, s.sumOf(v))
		case form == sumMeasured:
			text = strconv.AppendInt(text, int64(len(v)), 10)
			text = append(text, ',')
			text = append(text, v...)
		case form == sumDouble:
			text = appendDoubleParts(text, v)
		case s.bit[n]:
			text = appendBits(text, v)
		default:
			text = append(text, v...)
		}
	}
	s.text = text
	return binary.BigEndian.Uint64(s.sumOf(text))
}

func (s *rowSummer) sumOf(b []byte) []byte {
	s.sha.Reset()
	s.sha.Write(b)
	s.digest = s.sha.Sum(s.digest[:0])
	return s.digest
}

// keyOf returns the row's key in the form of keyExpr.
func (s *rowSummer) keyOf(row mysqlwire.TextRow) (mysqlwire.TextRow, error) {
	for i, k := range s.t.Key {
		v := row[k]
		if v == nil {
			return nil, fmt.Errorf("table %s: %w", s.t.FullName(), ErrNullKey)
		}
		if s.t.Columns[k].kind() == kindBit {
			s.bits[i] = appendBits(s.bits[i][:0], v)
			v = s.bits[i]
		}
		s.key[i] = v
	}
	return s.key, nil
}

// appendDoubleParts appends the values of doubleParts for a number, given as text.
func appendDoubleParts(dst, text []byte) []byte {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return append(dst, text...) // servers store no such numbers
	}
	sign, scaled := byte('0'), byte('0')
	if math.Signbit(v) {
		sign = '1'
	}
	switch v = math.Abs(v); {
	case v <= sumTiny:
		scaled, v = '2', v*sumTinyScale*sumTinyScale2
	case v < 1:
		scaled, v = '1', v*sumScale
	}
	return AppendDouble(append(dst, sign, ',', scaled, ','), v, -1)
}

// appendBits appends a BIT value, of at most 8 bytes, as a number.
func appendBits(dst, v []byte) []byte {
	var n uint64
	for _, b := range v {
		n = n<<8 | uint64(b)
	}
	return strconv.AppendUint(dst, n, 10)
}
