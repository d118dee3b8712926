package binlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A gtids is the set of transactions before a position, by GTID. The zero value is empty and stays empty on a
// server without GTIDs.
type gtids struct {
	maria []mariaGTID // the last GTID of each domain, by domain
	mysql []sourceIDs // by source
	mode  gtidMode
}

type gtidMode uint8

const (
	noGTID gtidMode = iota
	mariaGTIDs
	mysqlGTIDs
)

// A mariaGTID is the GTID of a transaction on MariaDB: "domain-server-sequence".
type mariaGTID struct {
	domain, server uint32
	sequence       uint64
}

// A gtidSource is the source of GTIDs on MySQL: a server's UUID and, since 8.3, a tag.
type gtidSource struct {
	uuid [16]byte
	tag  string
}

// sourceIDs are the numbers of one source in a set.
type sourceIDs struct {
	gtidSource
	spans []idSpan // ascending, with gaps in between
}

// An idSpan has the numbers in [first, end).
type idSpan struct{ first, end uint64 }

func compareSources(a, b gtidSource) int {
	return cmp.Or(bytes.Compare(a.uuid[:], b.uuid[:]), strings.Compare(a.tag, b.tag))
}

// parseGTIDs parses the GTID of a Position: MariaDB's list or MySQL's set.
func parseGTIDs(text string) (g gtids, err error) {
	if text == "" {
		return g, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if strings.Contains(part, ":") {
			err = g.parseMySQL(part)
		} else {
			err = g.parseMaria(part)
		}
		if err != nil {
			return gtids{}, fmt.Errorf("GTID %q: %w", text, err)
		}
	}
	if len(g.maria) > 0 && len(g.mysql) > 0 {
		return gtids{}, fmt.Errorf("GTID %q is partly MariaDB's and partly MySQL's", text)
	}
	return g, nil
}

var (
	errMariaGTID = errors.New("want domain-server-sequence")
	errMySQLGTID = errors.New("want uuid:first-last")
)

func (g *gtids) parseMaria(text string) error {
	fields := strings.Split(text, "-")
	if len(fields) != 3 {
		return errMariaGTID
	}
	domain, err1 := strconv.ParseUint(fields[0], 10, 32)
	server, err2 := strconv.ParseUint(fields[1], 10, 32)
	sequence, err3 := strconv.ParseUint(fields[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return errMariaGTID
	}
	g.addMaria(mariaGTID{domain: uint32(domain), server: uint32(server), sequence: sequence})
	return nil
}

// addMaria makes a transaction the last of its domain. It allocates only for a new domain.
func (g *gtids) addMaria(t mariaGTID) {
	g.mode = mariaGTIDs
	for i := range g.maria {
		if g.maria[i].domain == t.domain {
			g.maria[i] = t
			return
		}
	}
	g.maria = append(g.maria, t)
	slices.SortFunc(g.maria, func(a, b mariaGTID) int { return cmp.Compare(a.domain, b.domain) })
}

// parseMySQL parses "uuid:1-5:7" or "uuid:1-5:tag:1".
func (g *gtids) parseMySQL(text string) error {
	fields := strings.Split(text, ":")
	var s gtidSource
	uuid := strings.ReplaceAll(fields[0], "-", "")
	if len(uuid) != 2*len(s.uuid) {
		return errMySQLGTID
	}
	if _, err := hex.Decode(s.uuid[:], []byte(uuid)); err != nil {
		return errMySQLGTID
	}
	for _, f := range fields[1:] {
		f = strings.TrimSpace(f)
		if f != "" && (f[0] < '0' || f[0] > '9') {
			if len(f) > maxTag {
				return errMySQLGTID
			}
			s.tag = strings.ToLower(f)
			continue
		}
		from, to, ranged := strings.Cut(f, "-")
		first, err := strconv.ParseUint(from, 10, 63)
		last := first
		if err == nil && ranged {
			last, err = strconv.ParseUint(to, 10, 63)
		}
		if err != nil || first == 0 || last < first {
			return errMySQLGTID
		}
		g.addSpan(s, idSpan{first, last + 1})
	}
	if len(fields) < 2 {
		return errMySQLGTID
	}
	return nil
}

// addMySQL adds a transaction to the set. It allocates for a new source, and for numbers that are not
// consecutive.
func (g *gtids) addMySQL(s gtidSource, number uint64) { g.addSpan(s, idSpan{number, number + 1}) }

func (g *gtids) addSpan(s gtidSource, span idSpan) {
	g.mode = mysqlGTIDs
	i, ok := slices.BinarySearchFunc(g.mysql, s, func(a sourceIDs, s gtidSource) int { return compareSources(a.gtidSource, s) })
	if !ok {
		g.mysql = slices.Insert(g.mysql, i, sourceIDs{gtidSource: s})
	}
	ids := &g.mysql[i]
	// Spans adjacent to the new one are merged with it.
	from := len(ids.spans)
	for from > 0 && ids.spans[from-1].end >= span.first {
		from--
	}
	to := from
	for to < len(ids.spans) && ids.spans[to].first <= span.end {
		span.first, span.end = min(span.first, ids.spans[to].first), max(span.end, ids.spans[to].end)
		to++
	}
	if to == from+1 {
		ids.spans[from] = span
		return
	}
	ids.spans = slices.Replace(ids.spans, from, to, span)
}

// includes reports whether all transactions of h, of the same product, are in g.
func (g *gtids) includes(h *gtids) bool {
	for _, t := range h.maria {
		if !g.contains(&pendingGTID{mode: mariaGTIDs, maria: t}) {
			return false
		}
	}
	for i := range h.mysql {
		j, ok := slices.BinarySearchFunc(g.mysql, h.mysql[i].gtidSource, func(a sourceIDs, s gtidSource) int { return compareSources(a.gtidSource, s) })
		for _, span := range h.mysql[i].spans {
			if !ok || !slices.ContainsFunc(g.mysql[j].spans, func(s idSpan) bool { return s.first <= span.first && span.end <= s.end }) {
				return false
			}
		}
	}
	return true
}

// String returns the text for a Position.
func (g *gtids) String() string {
	var b []byte
	for i, t := range g.maria {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(t.domain), 10)
		b = strconv.AppendUint(append(b, '-'), uint64(t.server), 10)
		b = strconv.AppendUint(append(b, '-'), t.sequence, 10)
	}
	for i := range g.mysql {
		s := &g.mysql[i]
		switch {
		case i > 0 && g.mysql[i-1].uuid == s.uuid:
			b = append(b, ':')
		case i > 0:
			b = append(b, ',')
			fallthrough
		default:
			b = append(appendUUID(b, s.uuid[:], false), ':')
		}
		if s.tag != "" {
			b = append(append(b, s.tag...), ':')
		}
		for j, span := range s.spans {
			if j > 0 {
				b = append(b, ':')
			}
			b = strconv.AppendUint(b, span.first, 10)
			if span.end > span.first+1 {
				b = strconv.AppendUint(append(b, '-'), span.end-1, 10)
			}
		}
	}
	return string(b)
}

// appendSet appends a MySQL set in the binary form of BinlogDumpGTID. A set with tags has another form, which
// servers support since 8.3.
//
// Specification: MySQL "COM_BINLOG_DUMP_GTID"; Gtid_set::encode.
func (g *gtids) appendSet(dst []byte) []byte {
	const taggedForm = 1
	tagged := slices.ContainsFunc(g.mysql, func(s sourceIDs) bool { return s.tag != "" })
	head := uint64(len(g.mysql))
	if tagged {
		head = taggedForm<<56 | head<<8 | taggedForm
	}
	dst = binary.LittleEndian.AppendUint64(dst, head)
	for i := range g.mysql {
		s := &g.mysql[i]
		dst = append(dst, s.uuid[:]...)
		if tagged {
			dst = append(append(dst, byte(len(s.tag)<<1)), s.tag...)
		}
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(s.spans)))
		for _, span := range s.spans {
			dst = binary.LittleEndian.AppendUint64(dst, span.first)
			dst = binary.LittleEndian.AppendUint64(dst, span.end)
		}
	}
	return dst
}
