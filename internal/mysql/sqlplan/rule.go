package sqlplan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/sqldigest"
)

// An Action is the effect of a rule on the statements it matches.
type Action uint8

const (
	// ActionBlock refuses the statement.
	ActionBlock Action = iota + 1
	// ActionReadOnly refuses the statement unless it is read-only.
	ActionReadOnly
	// ActionAllow permits the statement. If a rule has this action, statements that match no such rule are
	// refused.
	ActionAllow
)

// String returns "block", "read-only" or "allow", the names in the configuration.
func (a Action) String() string {
	switch a {
	case ActionBlock:
		return "block"
	case ActionReadOnly:
		return "read-only"
	case ActionAllow:
		return "allow"
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}

// ParseAction returns the action with the given name; it is the inverse of String.
func ParseAction(name string) (Action, error) {
	for _, a := range [...]Action{ActionBlock, ActionReadOnly, ActionAllow} {
		if a.String() == name {
			return a, nil
		}
	}
	return 0, fmt.Errorf("unknown action %q: want block, read-only or allow", name)
}

// A Rule refuses or allows statements. It matches a statement that meets each of its non-empty lists: its
// digest is in Digests, one of its tables matches one of Tables, its type is in Types, and the user is in
// Users.
//
// The rules are evaluated in order; the first one that refuses the statement decides. A rule of
// ActionReadOnly permits read-only statements; one with Tables permits statements that do not write the
// tables it names.
//
// Uncertainty counts against the statement:
//   - a statement that was not parsed has every table and type that a word of its text may refer to;
//   - a statement that reads a file of the server, row events, statistics, locks, the statement of another
//     connection or through an open HANDLER, and one with an unknown verb, has every table for a rule that blocks;
//   - text that is hidden in a value (PREPARE … FROM, EXECUTE IMMEDIATE, a procedure of sys or mysql),
//     statements run by EXECUTE, the truncated part of a statement, and a statement in an unknown mode
//     (sqldigest.Mode.Unknown) have every table and type.
//
// If any rule has ActionAllow, a statement that matches none of these rules is refused. One with neither Types nor
// Tables matches every statement of its Users, and of its Digests if the text is read with certainty. Any other
// matches a statement whose tables are all in Tables and known exactly, whose types, including those of nested
// statements, are all in Types, and whose effects are implied by Types or in Effects. It matches no statement
// with hidden text and none that defines stored code. Rules of the other actions refuse statements even if an allow
// rule matches.
//
// Other calls execute stored text and are judged by their type only. A view counts as itself, not as the
// underlying tables.
type Rule struct {
	// Name identifies the rule in errors, the log and metrics. It is required and unique.
	Name string
	// Action is required.
	Action Action
	// Digests lists statements by digest.
	Digests []sqldigest.Digest
	// Tables are patterns of the form schema.table in which * matches any text and ? any one byte, ignoring
	// case. A statement's unqualified table is in the session's default schema.
	Tables []string
	// Types lists statement types.
	Types []Type
	// Effects lists effects. For an allowing rule they are permitted in addition to those that its Types imply;
	// another one matches a statement that may have one of them.
	Effects []Effect
	// Users lists user names, without host, compared byte by byte with the name as resolved by the server, in
	// UTF-8.
	Users []string
	// Message is sent to the client; if empty, the gateway sends a message that names the rule.
	Message string
	// DryRun makes the rule refuse nothing: statements that only it would refuse have VerdictDryRun. While
	// all rules of ActionAllow are dry runs, so is the refusal of statements that match none.
	DryRun bool
}

// Validate returns an error that names the rule and all its problems.
func (r *Rule) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Name == "" {
		bad("name is empty")
	}
	if r.Name == denyName {
		bad("the name is the one that refusals for want of an allow rule are counted under: choose another")
	}
	if r.Action < ActionBlock || r.Action > ActionAllow {
		bad("action is neither block nor read-only nor allow")
	}
	if r.Action == ActionBlock && len(r.Digests)+len(r.Tables)+len(r.Types)+len(r.Effects)+len(r.Users) == 0 {
		bad("blocks every statement: give digests, tables, types, effects or users")
	}
	if r.Action == ActionAllow && len(r.Effects) > 0 && len(r.Tables)+len(r.Types) == 0 {
		bad("allows effects of no statement: effects permit more to the statements of types or tables, so give one of them")
	}
	if r.Action == ActionAllow && len(r.Digests)+len(r.Tables)+len(r.Types)+len(r.Users) == 0 {
		bad("allows every statement: give digests, tables, types or users")
	}
	if r.Action == ActionAllow && r.Message != "" {
		bad("has a message, and refuses no statement: remove the message")
	}
	for _, p := range r.Tables {
		schema, table, ok := strings.Cut(p, ".")
		if !ok || schema == "" || table == "" {
			bad("table pattern %q is not of the form schema.table", p)
		}
	}
	for _, d := range r.Digests {
		if !d.Current() {
			bad("digest %s is of another version of the normalized text, and no statement has it now: digests of version %d begin with %02x. "+
				"Look up the old digest's text on the history's pages (/query/%s) and use the digest under which the same statement is counted since the upgrade",
				d, sqldigest.Version, sqldigest.Version, d)
		}
	}
	for _, t := range r.Types {
		if t >= typeCount {
			bad("statement type %d does not exist", uint8(t))
		}
	}
	for _, e := range r.Effects {
		if e == 0 || e >= effectsEnd {
			bad("effect %d does not exist", uint64(e))
		}
	}
	if slices.Contains(r.Users, "") {
		bad("a user name is empty")
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("rule %q: %w", r.Name, errors.Join(errs...))
}

// A Verdict is the result of the rules for a statement.
type Verdict uint8

const (
	// VerdictPass : no rule refuses it.
	VerdictPass Verdict = iota
	// VerdictBlocked : a rule of ActionBlock refuses it.
	VerdictBlocked
	// VerdictReadOnly : a rule of ActionReadOnly refuses it: it writes, or may.
	VerdictReadOnly
	// VerdictDenied : there are rules of ActionAllow, and none of them matches.
	VerdictDenied
	// VerdictDryRun : it passes, and a dry-run rule would refuse it.
	VerdictDryRun
)

// Refuses reports whether the statement must not pass.
func (v Verdict) Refuses() bool { return v != VerdictPass && v != VerdictDryRun }

// String returns "pass", "blocked", "read-only", "denied" or "dry-run".
func (v Verdict) String() string {
	switch v {
	case VerdictPass:
		return "pass"
	case VerdictBlocked:
		return "blocked"
	case VerdictReadOnly:
		return "read-only"
	case VerdictDenied:
		return "denied"
	case VerdictDryRun:
		return "dry-run"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// A ruleSet is a validated list of rules, compiled for planning. It is immutable.
type ruleSet struct {
	rules []compiledRule
	// deny represents the refusal of statements without a matching allow rule; nil if there are no allow
	// rules.
	deny *compiledRule
}

type compiledRule struct {
	Rule
	types  typeSet
	effect Effect // the union of Effects
	tables []tablePattern
	hits   *atomic.Uint64
}

type tablePattern struct{ schema, table string } // lower case

// compileRules copies the rules, so that later changes of the caller's slices have no effect.
func compileRules(rules []Rule) (*ruleSet, error) {
	set := &ruleSet{rules: make([]compiledRule, 0, len(rules))}
	names := make(map[string]bool, len(rules))
	var errs []error
	for i := range rules {
		r := &rules[i]
		if err := r.Validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		if names[r.Name] {
			errs = append(errs, fmt.Errorf("rule %q: the name is used twice", r.Name))
		}
		names[r.Name] = true
		c := compiledRule{Rule: *r, hits: new(atomic.Uint64)}
		c.Digests = slices.Clone(r.Digests)
		c.Users = slices.Clone(r.Users)
		for _, t := range r.Types {
			c.types.add(t)
		}
		for _, e := range r.Effects {
			c.effect |= e
		}
		for _, p := range r.Tables {
			schema, table, _ := strings.Cut(lowerASCII(p), ".")
			c.tables = append(c.tables, tablePattern{schema: schema, table: table})
		}
		set.rules = append(set.rules, c)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	set.deny = set.denial()
	return set, nil
}

// names reports whether the rule applies to the user. A name that is not valid UTF-8 could not be resolved:
// it may be any user's, so a refusing rule matches it and an allowing rule does not.
func (r *compiledRule) names(user []byte) bool {
	if !utf8.Valid(user) {
		return r.Action != ActionAllow
	}
	return slices.ContainsFunc(r.Users, func(u string) bool { return u == string(user) })
}

// evaluate returns the first rule that refuses the statement, else the first dry-run rule that would, else
// nil.
func (s *ruleSet) evaluate(st *Statement, a *analysis) (*compiledRule, Verdict) {
	var dry *compiledRule
	allowed := false
	a.lacking = ""
	for i := range s.rules {
		r := &s.rules[i]
		switch v := r.verdict(st, a); {
		case r.Action == ActionAllow:
			// A dry-run allow rule counts only if all allow rules are dry runs.
			if allowed || r.DryRun != s.deny.DryRun {
				break
			}
			ok, types, effects := r.allows(st, a)
			allowed = ok
			if a.lacking == "" && types|typeSet(effects) != 0 {
				a.lacking = lacking(r.Name, types, effects)
			}
		case v == VerdictPass:
		case !r.DryRun:
			return r, v
		case dry == nil:
			dry = r
		}
	}
	if s.deny != nil && !allowed {
		if !s.deny.DryRun {
			return s.deny, VerdictDenied
		}
		if dry == nil {
			dry = s.deny
		}
	}
	if dry != nil {
		return dry, VerdictDryRun
	}
	return nil, VerdictPass
}

// verdict returns the verdict of a rule of ActionBlock or ActionReadOnly.
func (r *compiledRule) verdict(st *Statement, a *analysis) Verdict {
	switch {
	case len(r.Users) > 0 && !r.names(st.User),
		len(r.Digests) > 0 && !slices.Contains(r.Digests, st.Digest),
		r.types != 0 && !a.opaque && a.types&r.types == 0,
		r.effect != 0 && !a.opaque && a.ruleEffects()&r.effect == 0,
		len(r.tables) > 0 && !a.touches(r):
		return VerdictPass
	case r.Action == ActionBlock:
		return VerdictBlocked
	case r.Action == ActionReadOnly && !a.readOnly:
		return VerdictReadOnly
	}
	return VerdictPass
}

// touches reports whether one of the statement's tables matches the rule. For a read-only rule only written
// tables count, if they are known.
func (a *analysis) touches(r *compiledRule) bool {
	if a.opaque || a.anyTable && r.Action != ActionReadOnly {
		return true
	}
	schema, source := a.source()
	for _, p := range r.tables {
		if r.Action != ActionReadOnly && source != "" && p.matches(tableRef{schema: schema, name: source}) {
			return true
		}
	}
	if !a.parsed {
		return a.mentions(r.tables)
	}
	for _, t := range a.tables.list {
		if r.Action == ActionReadOnly && t.access&AccessWrite == 0 {
			continue
		}
		for _, p := range r.tables {
			if p.matches(t) {
				return true
			}
		}
	}
	return false
}

// matches reports whether the pattern covers a table. An empty schema (none was selected) represents any, an
// empty name the whole schema.
func (p tablePattern) matches(t tableRef) bool {
	return (t.schema == "" || t.unsureSchema || globName(p.schema, t.schema)) && (t.name == "" || t.unsureName || globName(p.table, t.name))
}

// globName is globMatch for a name in normalized text. There a synonym has been replaced by its keyword, even
// if it is a table's name: a pattern that covers any of the synonyms covers the name.
func globName(pattern, name string) bool {
	if !isASCII(name) {
		return !isASCII(pattern) || mayMatch(pattern, name) // the pattern is in UTF-8
	}
	name = lowerASCII(name)
	if globMatch(pattern, name) {
		return true
	}
	kw := sqldigest.LookupKeyword(name)
	if kw == 0 {
		return false
	}
	for _, s := range synonyms {
		if sqldigest.LookupKeyword(s) == kw && globMatch(pattern, s) {
			return true
		}
	}
	return false
}

// isASCII reports whether all bytes are below 0x80.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// synonyms are the words that the digest prints as another word and that may be unquoted names.
var synonyms = [...]string{
	"distinctrow", "explain", "fields", "float4", "float8", "geomcollection", "int1", "int2", "int3", "int4", "int8",
	"io_thread", "middleint", "ndb", "slave", "slaves", "slave_pos", "rlike", "schema", "schemas", "some",
	"sql_tsi_day", "sql_tsi_hour", "sql_tsi_minute", "sql_tsi_month", "sql_tsi_quarter", "sql_tsi_second",
	"sql_tsi_week", "sql_tsi_year", "varcharacter", "character", "dec", "integer", "localtime", "localtimestamp",
}

// globMatch reports whether s matches a lower-case pattern of bytes, * and ?. Its time is bounded by the
// product of their lengths.
func globMatch(pattern, s string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == lowerByte(s[i])):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lowerByte(c)
	}
	return string(b)
}
