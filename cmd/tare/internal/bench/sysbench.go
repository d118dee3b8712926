package bench

import (
	"context"
	"math/rand/v2"
	"strconv"
)

// The shape of sysbench's oltp_*.lua with its default options, except that keys are uniformly distributed.
const (
	sbPointSelects = 10
	sbRangeSize    = 100
)

// sbStatements are the texts for one table.
type sbStatements struct {
	point, simple, sum, order, distinct     string
	updateIndex, updateText, remove, insert string
}

// sbTables has sysbench's layout and names, so that tables prepared by sysbench can be used.
func sbTables(o *OLTPOptions) []table {
	var tables []table
	for n := 1; n <= o.Tables; n++ {
		name := "sbtest" + strconv.Itoa(n)
		rng := rand.New(rand.NewPCG(uint64(n), 0x5b))
		tables = append(tables, table{
			name: name,
			create: "CREATE TABLE " + name + " (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL," +
				" c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id), KEY k_" + strconv.Itoa(n) + " (k))",
			rows: o.Rows,
			row: func(dst []byte, i int) []byte {
				dst = strconv.AppendInt(append(dst, '('), int64(i+1), 10)
				dst = strconv.AppendInt(append(dst, ','), int64(1+rng.IntN(o.Rows)), 10)
				dst = appendDigits(append(dst, ",'"...), rng, 10)
				dst = appendDigits(append(dst, "','"...), rng, 5)
				return append(dst, "')"...)
			},
		})
	}
	return tables
}

// appendDigits appends groups of eleven digits separated by dashes, like sysbench's columns c and pad.
func appendDigits(dst []byte, rng *rand.Rand, groups int) []byte {
	for g := range groups {
		if g > 0 {
			dst = append(dst, '-')
		}
		for range 11 {
			dst = append(dst, byte('0'+rng.IntN(10)))
		}
	}
	return dst
}

func sbTexts(o *OLTPOptions) []sbStatements {
	var texts []sbStatements
	for n := 1; n <= o.Tables; n++ {
		t := "sbtest" + strconv.Itoa(n)
		texts = append(texts, sbStatements{
			point:       "SELECT c FROM " + t + " WHERE id=?",
			simple:      "SELECT c FROM " + t + " WHERE id BETWEEN ? AND ?",
			sum:         "SELECT SUM(k) FROM " + t + " WHERE id BETWEEN ? AND ?",
			order:       "SELECT c FROM " + t + " WHERE id BETWEEN ? AND ? ORDER BY c",
			distinct:    "SELECT DISTINCT c FROM " + t + " WHERE id BETWEEN ? AND ? ORDER BY c",
			updateIndex: "UPDATE " + t + " SET k=k+1 WHERE id=?",
			updateText:  "UPDATE " + t + " SET c=? WHERE id=?",
			remove:      "DELETE FROM " + t + " WHERE id=?",
			insert:      "INSERT INTO " + t + " (id, k, c, pad) VALUES (?, ?, ?, ?)",
		})
	}
	return texts
}

// key returns an id from 1 to rows.
func key(rng *rand.Rand, rows int) int64 { return int64(1 + rng.IntN(rows)) }

// pointSelect is oltp_point_select: one statement, without a transaction.
func pointSelect(o *OLTPOptions) operation {
	texts := sbTexts(o)
	return func(ctx context.Context, s *connection, rng *rand.Rand) error {
		return s.run(ctx, texts[rng.IntN(len(texts))].point, key(rng, o.Rows))
	}
}

// readOnly is oltp_read_only.
func readOnly(o *OLTPOptions) operation {
	texts := sbTexts(o)
	return func(ctx context.Context, s *connection, rng *rand.Rand) error {
		return s.transaction(ctx, func() error { return sbReads(ctx, s, rng, o.Rows, texts) })
	}
}

// readWrite is oltp_read_write.
func readWrite(o *OLTPOptions) operation {
	texts := sbTexts(o)
	return func(ctx context.Context, s *connection, rng *rand.Rand) error {
		return s.transaction(ctx, func() error {
			if err := sbReads(ctx, s, rng, o.Rows, texts); err != nil {
				return err
			}
			return sbWrites(ctx, s, rng, o.Rows, texts)
		})
	}
}

func sbReads(ctx context.Context, s *connection, rng *rand.Rand, rows int, texts []sbStatements) error {
	for range sbPointSelects {
		if err := s.run(ctx, texts[rng.IntN(len(texts))].point, key(rng, rows)); err != nil {
			return err
		}
	}
	t := &texts[rng.IntN(len(texts))]
	for _, text := range []string{t.simple, t.sum, t.order, t.distinct} {
		from := key(rng, rows)
		if err := s.run(ctx, text, from, from+sbRangeSize-1); err != nil {
			return err
		}
	}
	return nil
}

func sbWrites(ctx context.Context, s *connection, rng *rand.Rand, rows int, texts []sbStatements) error {
	t := &texts[rng.IntN(len(texts))]
	if err := s.run(ctx, t.updateIndex, key(rng, rows)); err != nil {
		return err
	}
	if err := s.run(ctx, t.updateText, string(appendDigits(nil, rng, 10)), key(rng, rows)); err != nil {
		return err
	}
	id := key(rng, rows)
	if err := s.run(ctx, t.remove, id); err != nil {
		return err
	}
	return s.run(ctx, t.insert, id, key(rng, rows), string(appendDigits(nil, rng, 10)), string(appendDigits(nil, rng, 5)))
}
