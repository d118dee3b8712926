package tabledef

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/rowstream"
)

// A table is split over targets by conditions on one column, such that each of its rows matches the condition of
// exactly one target:
//
//   - hash: target i of n has the rows whose CRC-32 of the column's bytes, modulo n, is i-1. NULL counts as empty.
//   - range: a row goes to the first target whose bound is greater than the row's value, otherwise to the last target.
//     The condition of target i requires that the value is not less than each bound before i, and less than bound i. So
//     conditions of two targets exclude each other, and one of them is true, whatever order the bounds are in. NULL
//     is less than all bounds, as in an index.
//   - lookup: a table of the source assigns each value to a target; see Lookup.
//
// The conditions apply to rows that are read and to both images of a change in the log: a row whose column changes is
// deleted from one target and inserted into another.

var (
	splitForm   = regexp.MustCompile(`(?is)^(hash|range|lookup)\s*\((.*)\)$`)
	splitNumber = regexp.MustCompile(`^[+-]?\d+(?:\.\d+)?$`)
	splitText   = regexp.MustCompile(`^'[^'\\]*'$`)
)

// AddSplit adds the parts of a table to its specs, one per target, by a clause such as "db.t: hash(id)", "db.t: range(id,
// 1000, 2000)" with a bound between each two targets, "db.t: lookup(id, db.shards)", or "db.t: all", which copies all rows to each target.
func AddSplit(targets [][]Spec, clause string) error {
	specs := make([]*Spec, len(targets))
	var text string
	for i := range targets {
		var err error
		if specs[i], text, err = splitClause(targets[i], clause); err != nil {
			return err
		}
	}
	if strings.EqualFold(text, "all") {
		return nil
	}
	m := splitForm.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("%q is not of the form schema.table: hash(column), range(column, bound, …), lookup(column, schema.table) or all", clause)
	}
	column, rest, bounded := strings.Cut(m[2], ",")
	column = strings.Trim(strings.TrimSpace(column), "`")
	switch {
	case column == "":
		return fmt.Errorf("%q names no column", clause)
	case strings.EqualFold(m[1], "range"):
		return splitByRange(specs, column, clause, rest, bounded)
	case strings.EqualFold(m[1], "lookup"):
		return splitByLookup(specs, column, clause, rest)
	case bounded:
		return fmt.Errorf("%q: hash has one column; the number of shards is that of the servers", clause)
	}
	for i, s := range specs {
		if s.Shard.Count != 0 {
			return fmt.Errorf("%q: option only-shard selects a part of the same table", clause)
		}
		s.ShardColumn, s.Shard = column, rowstream.Shard{Index: i + 1, Count: len(specs)}
	}
	return nil
}

// splitByRange adds the conditions of ranges between bounds.
func splitByRange(specs []*Spec, column, clause, list string, bounded bool) error {
	var bounds []string
	if bounded {
		for b := range strings.SplitSeq(list, ",") {
			bounds = append(bounds, strings.TrimSpace(b))
		}
	}
	if len(bounds) != len(specs)-1 {
		return fmt.Errorf("%q has %d bounds; %d shards need %d: the first has the values below the first bound, the last those from the last bound on",
			clause, len(bounds), len(specs), len(specs)-1)
	}
	for i, b := range bounds {
		if !splitNumber.MatchString(b) && !splitText.MatchString(b) {
			return fmt.Errorf("%q: bound %s is neither a number nor text in quotes, such as '2026-01-31'", clause, b)
		}
		if i == 0 {
			continue
		}
		order, err := compareBounds(bounds[i-1], b)
		if err == nil && order >= 0 {
			err = errors.New("bounds must increase, so that no shard is without a range")
		}
		if err != nil {
			return fmt.Errorf("%q: bound %s after %s: %w", clause, b, bounds[i-1], err)
		}
	}
	name := session.Ident(column)
	for i, s := range specs {
		var all []string
		for _, b := range bounds[:i] {
			all = append(all, name+" >= "+b)
		}
		switch {
		case i == 0:
			all = append(all, "("+name+" < "+bounds[0]+" OR "+name+" IS NULL)")
		case i < len(bounds):
			all = append(all, name+" < "+bounds[i])
		}
		part := strings.Join(all, " AND ")
		if s.Where != "" {
			part = "(" + s.Where + ") AND (" + part + ")"
		}
		s.Where = part
	}
	return nil
}

// compareBounds compares two numbers, or two texts byte by byte.
func compareBounds(a, b string) (int, error) {
	if strings.HasPrefix(a, "'") != strings.HasPrefix(b, "'") {
		return 0, errors.New("one is a number and the other text")
	}
	if strings.HasPrefix(a, "'") {
		return cmp.Compare(a, b), nil
	}
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	if !okX || !okY {
		return 0, errors.New("it is no number")
	}
	return x.Cmp(y), nil
}
