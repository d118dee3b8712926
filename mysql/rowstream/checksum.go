package rowstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Checksum is a checksum of rows, independent of their order. Equal rows have equal sums; different ones
// have equal sums with a probability of 2^-64.
//
// A row's sum is the first 8 bytes of the SHA-256 of its values' text, with lengths and a list of the NULLs,
// so that no two rows have the same text. Sums are combined by XOR. A CRC-32 would not suffice: the XOR of a
// linear code is unchanged if two rows exchange their values.
type Checksum struct {
	Rows int64
	Sum  uint64
}

func (c Checksum) String() string { return fmt.Sprintf("%d rows, %016x", c.Rows, c.Sum) }

// A RowSum is the checksum of one row.
type RowSum struct {
	Key mysqlwire.TextRow
	Sum uint64
}

// SumOptions select the rows of a chunk and the values that are included in the sum.
type SumOptions struct {
	Where   string // SQL over the table's columns; empty: all rows
	Plan    *Plan  // only its conditions are used; nil: all rows
	Columns []int  // indexes of the table's columns, in the order of the sum; indexes beyond Columns are of Generated

	// Exprs are summed up in place of the values of Columns, by their number there; empty: the value is. Only servers compute them.
	Exprs []string
}

// SumChunk computes the checksum of a chunk's rows through r: on the server if SQL can express the
// conditions, otherwise by reading the rows.
func SumChunk(ctx context.Context, r ViewReader, t *Table, c Chunk, o SumOptions) (Checksum, error) {
	if o.inSQL() {
		return r.SumChunk(ctx, t, c, o)
	}
	var sum Checksum
	for row, err := range SumRead(ctx, r, t, c, o) {
		if err != nil {
			return sum, err
		}
		sum.Rows++
		sum.Sum ^= row.Sum
	}
	return sum, nil
}

// SumRows returns the keys and sums of a chunk's rows, like ViewReader.SumRows.
func SumRows(ctx context.Context, r ViewReader, t *Table, c Chunk, o SumOptions) iter.Seq2[RowSum, error] {
	if o.inSQL() {
		return r.SumRows(ctx, t, c, o)
	}
	return SumRead(ctx, r, t, c, o)
}

// inSQL reports whether SQL can express all of the conditions.
func (o *SumOptions) inSQL() bool {
	if o.Plan == nil {
		return true
	}
	for i := range o.Plan.Where {
		if o.Plan.Where[i].Shard.Count == 0 {
			return false
		}
	}
	return o.Plan.Match == nil
}

// where returns the condition on a table's rows, in SQL. inSQL must be true.
func (o *SumOptions) where(t *Table) string {
	var all []string
	if o.Where != "" {
		all = append(all, "("+o.Where+")")
	}
	if o.Plan != nil {
		for _, c := range o.Plan.Where {
			all = append(all, c.Shard.Condition(&t.Columns[c.Column]))
		}
	}
	return strings.Join(all, " AND ")
}

// SumChunk implements ViewReader over the reader's connection, within its view.
func (r *reader) SumChunk(ctx context.Context, t *Table, c Chunk, o SumOptions) (Checksum, error) {
	return SumChunkOf(ctx, r.s.clients[r.worker], t, c, o)
}

// SumRows implements ViewReader over the reader's connection, within its view.
func (r *reader) SumRows(ctx context.Context, t *Table, c Chunk, o SumOptions) iter.Seq2[RowSum, error] {
	return SumRowsOf(ctx, r.s.clients[r.worker], t, c, o)
}

// SumChunkOf is SumChunk of a ViewReader over a connection with the settings of Session.
func SumChunkOf(ctx context.Context, c *mysqlconn.Client, t *Table, chunk Chunk, o SumOptions) (sum Checksum, err error) {
	conditions, err := t.conditions(chunk, o.where(t))
	if err != nil {
		return Checksum{}, err
	}
	sql := "SELECT COUNT(*), COALESCE(BIT_XOR(CAST(" + t.sumExpr(o) + " AS UNSIGNED)), 0) FROM " + t.SQLName() + t.forceIndex() + conditions
	_, err = c.Query(ctx, sql, func(row mysqlwire.TextRow) (err error) {
		if sum.Rows, err = strconv.ParseInt(string(row[0]), 10, 64); err == nil {
			sum.Sum, err = strconv.ParseUint(string(row[1]), 10, 64)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("sum up chunk %d of %s: %w", chunk.Number, t.FullName(), err)
	}
	return sum, err
}

// SumRowsOf is SumRows of a ViewReader over a connection with the settings of Session.
func SumRowsOf(ctx context.Context, c *mysqlconn.Client, t *Table, chunk Chunk, o SumOptions) iter.Seq2[RowSum, error] {
	return func(yield func(RowSum, error) bool) {
		conditions, err := t.conditions(chunk, o.where(t))
		if err == nil {
			sql := "SELECT " + t.sumExpr(o) + ", " + t.keyExprs() + " FROM " + t.SQLName() + t.forceIndex() + conditions + " ORDER BY " + t.keyOrder()
			_, err = c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
				sum, err := strconv.ParseUint(string(row[0]), 10, 64)
				if err == nil && !yield(RowSum{row[1:], sum}, nil) {
					err = errLoopLeft
				}
				return err
			})
		}
		if err != nil && !errors.Is(err, errLoopLeft) {
			yield(RowSum{}, fmt.Errorf("sum up the rows of chunk %d of %s: %w", chunk.Number, t.FullName(), err))
		}
	}
}

// errLoopLeft stops a query whose remaining rows are not needed.
var errLoopLeft = errors.New("the loop over the rows has ended")

// CheckSums returns an error if a server cannot compute checksums: without SHA-256 its sums are NULL for all
// rows. (MySQL removed MD5 and SHA1 in 9.6.)
func CheckSums(ctx context.Context, c *mysqlconn.Client) error {
	got, err := session.QueryValue(ctx, c, "SELECT SHA2('', 256)")
	if err == nil && got != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		err = fmt.Errorf("it says that the SHA-256 of nothing is %q", got)
	}
	if err != nil {
		return fmt.Errorf("find out whether the server can sum up rows: %w", err)
	}
	return nil
}

// sumExpr returns the expression for a row's sum as decimal text.
func (t *Table) sumExpr(o SumOptions) string {
	var nulls, parts []string
	for n, i := range o.Columns {
		if n < len(o.Exprs) && o.Exprs[n] != "" {
			nulls = append(nulls, "ISNULL("+o.Exprs[n]+")")
			parts = append(parts, "SHA2("+o.Exprs[n]+", 256)")
			continue
		}
		c := t.columnOf(i)
		if c.Nullable {
			nulls = append(nulls, "ISNULL("+session.Ident(c.Name)+")")
		}
		switch c.sumForm() {
		case sumDigest:
			parts = append(parts, "SHA2("+session.Ident(c.Name)+", 256)")
		case sumMeasured:
			parts = append(parts, "LENGTH("+session.Ident(c.Name)+")", "CAST("+session.Ident(c.Name)+" AS BINARY)")
		case sumDouble:
			parts = append(parts, doubleParts(session.Ident(c.Name))...)
		default:
			parts = append(parts, c.keyExpr())
		}
	}
	if len(nulls) > 0 {
		parts = append([]string{"CONCAT(" + strings.Join(nulls, ", ") + ")"}, parts...)
	}
	return "CONV(LEFT(SHA2(CONCAT_WS(',', " + strings.Join(parts, ", ") + "), 256), 16), 16, 10)"
}

// Numbers below 1 are multiplied by a power of two for their sum, which changes none of their significant
// bits: those down to sumTiny by 2^64, others by 2^1000 and 2^74.
const (
	sumTiny                               = 1e-17
	sumScale, sumTinyScale, sumTinyScale2 = 0x1p64, 0x1p1000, 0x1p74
)

// doubleParts returns the expressions for a double or float in the text of a row's sum: its sign, also that
// of 0, which MariaDB never prints; whether it was multiplied; and its text as a number of at least 1. The
// texts of other numbers differ between servers, and MySQL rounds texts of more than 22 bytes in CONCAT.
func doubleParts(name string) []string {
	sized := "ABS(" + name + "*1e0)"
	return []string{
		name + " < 0 OR " + name + " = 0 AND ATAN2(0e0, " + name + ") > 1",
		"(" + sized + " < 1) + (" + sized + " <= 1e-17)",
		"IF(" + sized + " < 1, IF(" + sized + " <= 1e-17, " + sized + "*1.0715086071862673e301*1.888946593147858e22, " + sized + "*18446744073709551616e0), " + sized + ")",
	}
}

// A sumForm is the form of a value in the text of a row's sum. NULL is only in the list of the NULLs.
type sumForm uint8

const (
	sumText     sumForm = iota // its text, which never contains a comma
	sumDouble                  // see doubleParts
	sumMeasured                // its length and its bytes
	sumDigest                  // the SHA-256 of its bytes, which could otherwise exceed max_allowed_packet in the row's text
)

func (c *Column) sumForm() sumForm {
	switch c.kind() {
	case kindText, kindBinary:
		switch c.Type {
		case "char", "varchar", "binary", "varbinary":
			return sumMeasured
		}
		return sumDigest
	case kindJSON:
		return sumDigest
	case kindFloat:
		return sumDouble
	case kindNumber:
		if c.Type == "double" {
			return sumDouble
		}
	}
	return sumText
}
