package sqlplan

import (
	"encoding/binary"
	"iter"
)

//go:generate go tool sizegen .

// A Plan is the gateway's knowledge about a statement: facts about its normalized text under one scope, the
// same for every execution. It is immutable and safe for concurrent use.
//
// It consists of two heap objects: this struct, and the arena with its strings. The generated CachedSize
// truncates the arena before the plan is published, so that it pins no statement's text, and returns the cost
// of both to the cache.
//
//sizegen:root
type Plan struct {
	// arena contains the tables, then the hints, then the literals' positions, encoded by appendTable,
	// appendHint and appendPosition, and for a statement without a matching allow rule what one lacks.
	arena string

	// rule is the rule that refuses the statement, or would as a dry run; nil if none does. The gateway's
	// error message, its log record and the rule counters name it.
	//
	//sizegen:shared the rule is the planner's
	rule *compiledRule

	// effects is for session-effect tracking.
	effects Effect

	// literals is the number of placeholders in the normalized text: the log includes the number of values
	// that a redacted statement hides.
	literals uint32

	tablesEnd, hintsEnd, literalsEnd uint32 // offsets into arena

	// bytes is the heap cost of the plan, charged by the cache; it is constant.
	bytes uint32

	// typ is for the log, metrics and rules.
	typ Type

	// verdict is consulted by the gateway before it relays.
	verdict Verdict

	flags planFlags
}

type planFlags uint8

const (
	// flagReadOnly is for routing and for rules of ActionReadOnly.
	flagReadOnly planFlags = 1 << iota
	// flagParsed is for the coverage counter in the metrics and for the page of largest plans.
	flagParsed
	// flagUse, flagModes and flagRoutine are for the plans of statements after it in the same text.
	flagUse
	flagModes
	flagRoutine
)

// Type returns the statement's type.
func (p *Plan) Type() Type { return p.typ }

// Effects returns the statement's effects on its session.
func (p *Plan) Effects() Effect { return p.effects }

// ReadOnly reports whether the statement changes nothing visible to another session: no rows, no schema, no
// global state, no files, and takes no locks. Uncertain statements are not read-only. A read-only statement
// may still have effects on its session.
func (p *Plan) ReadOnly() bool { return p.flags&flagReadOnly != 0 }

// Parsed reports whether the tables are exact: the statement was parsed completely. Otherwise the lexer
// classified it, and its effects are the possible ones.
func (p *Plan) Parsed() bool { return p.flags&flagParsed != 0 }

// After returns the effect of the statement on later ones of the same text.
func (p *Plan) After() After { return AfterAny | After(p.flags/flagUse)*AfterUse }

// Verdict returns the rules' verdict and the name of the rule that refuses, or would as a dry run.
func (p *Plan) Verdict() (v Verdict, rule string) {
	if p.rule == nil {
		return VerdictPass, ""
	}
	return p.verdict, p.rule.Name
}

// Message returns the refusing rule's message for the client, "" for the gateway's default.
func (p *Plan) Message() string {
	if p.rule == nil {
		return ""
	}
	return p.rule.Message
}

// Lacking returns the words that an allow rule lacks to match the statement: "rule "shop" requires effects: [row-locks]
// for it". It is "" if no allow rule is that close.
func (p *Plan) Lacking() string { return p.arena[p.literalsEnd:] }

// A Table is a table that a statement names. Its strings are views of the plan and keep its arena
// alive.
type Table struct {
	Schema string // the default schema for an unqualified name, "" if none was selected
	Name   string // "" for the whole schema, as in DROP DATABASE
	Access Access
}

// String returns schema.name.
func (t Table) String() string {
	switch {
	case t.Name == "":
		return t.Schema + ".*"
	case t.Schema == "":
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// Tables yields the tables that the statement names, each once, in order of appearance. For an unparsed
// statement they are the likely ones. The log and per-table metrics use it. It does not allocate.
func (p *Plan) Tables() iter.Seq[Table] {
	return func(yield func(Table) bool) {
		for s := p.arena[:p.tablesEnd]; s != ""; {
			t := Table{Access: Access(s[0])}
			t.Schema, s = cutString(s[1:])
			t.Name, s = cutString(s)
			if !yield(t) {
				return
			}
		}
	}
}

// Hints yields the text of the statement's optimizer hints, without the comment marks. The
// page of a digest shows them. It does not allocate.
func (p *Plan) Hints() iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := p.arena[p.tablesEnd:p.hintsEnd]; s != ""; {
			var h string
			if h, s = cutString(s); !yield(h) {
				return
			}
		}
	}
}

// Literals returns the number of literals and parameters in the normalized text; a collapsed list counts as
// one.
func (p *Plan) Literals() int { return int(p.literals) }

// LiteralPositions yields the offsets of their placeholders in the normalized text, ascending. Redaction uses
// them to mark hidden values without lexing the text again. It does not allocate.
func (p *Plan) LiteralPositions() iter.Seq[int] {
	return func(yield func(int) bool) {
		pos := 0
		for s := p.arena[p.hintsEnd:p.literalsEnd]; s != ""; {
			var d uint64
			d, s = cutUvarint(s)
			pos += int(d)
			if !yield(pos) {
				return
			}
		}
	}
}

func appendTable(dst []byte, t tableRef) []byte {
	dst = append(dst, byte(t.access))
	dst = appendString(dst, t.schema)
	return appendString(dst, t.name)
}

func appendHint(dst []byte, text []byte) []byte { return appendString(dst, text) }

// appendPosition appends the distance from the previous position.
func appendPosition(dst []byte, delta int) []byte {
	return binary.AppendUvarint(dst, uint64(delta))
}

func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func cutString(s string) (head, tail string) {
	n, s := cutUvarint(s)
	return s[:n], s[n:]
}

func cutUvarint(s string) (v uint64, tail string) {
	for i, shift := 0, uint(0); i < len(s); i, shift = i+1, shift+7 {
		v |= uint64(s[i]&0x7f) << shift
		if s[i] < 0x80 {
			return v, s[i+1:]
		}
	}
	panic("BUG: plan arena ends inside a number")
}
