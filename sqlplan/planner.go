package sqlplan

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/bytecache"
	"github.com/taredb/tare/sqldigest"
)

// Defaults of Options.
const (
	DefaultCacheBytes         = 32 << 20
	DefaultMaxCachedStatement = 64 << 10
	DefaultMaxListItems       = 1000
	DefaultMaxParse           = 64 << 10
)

// Options configure a Planner. The zero value of a field means its default.
type Options struct {
	// CacheBytes is the most heap bytes that the cached plans take, everything counted.
	CacheBytes int64

	// MaxCachedStatement is the length in bytes of normalized text past which a statement's plan is
	// made for one execution and not kept. Lists of literals are collapsed there: the length of
	// data in a statement does not count.
	MaxCachedStatement int

	// MaxListItems is the number of items past which a statement with such a list is not kept
	// either: long lists that could not be collapsed are rarely seen twice.
	MaxListItems int

	// MaxParse is the length in bytes of normalized text past which a statement is not given
	// to the parser but classified by the lexer alone.
	MaxParse int

	// Rules are the rules in force from the start; SetRules changes them.
	Rules []Rule
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	def(&o.MaxCachedStatement, DefaultMaxCachedStatement)
	def(&o.MaxListItems, DefaultMaxListItems)
	def(&o.MaxParse, DefaultMaxParse)
	return o
}

// Validate returns an error that names every option out of its range and every faulty rule.
func (o Options) Validate() error {
	var errs []error
	for _, f := range [...]struct {
		name string
		v    int64
	}{
		{"CacheBytes", o.CacheBytes},
		{"MaxCachedStatement", int64(o.MaxCachedStatement)},
		{"MaxListItems", int64(o.MaxListItems)},
		{"MaxParse", int64(o.MaxParse)},
	} {
		if f.v < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", f.name, f.v))
		}
	}
	if o.MaxParse > maxText {
		errs = append(errs, fmt.Errorf("MaxParse is %d, more than %d", o.MaxParse, maxText))
	}
	if _, err := compileRules(o.Rules); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxText is the most text that is looked at: offsets in it are 32 bits wide.
const maxText = 1 << 30

// A Statement is what Plan needs to know about a statement in order to plan it.
type Statement struct {
	// SQL is the statement as the client sent it, whole or its beginning. It is looked at only
	// when Text is not the whole normalized text.
	SQL []byte
	// Complete says that SQL is whole.
	Complete bool
	// Text is the normalized text, as far as the digester kept it.
	Text []byte
	// Digest is the digest of the whole normalized text.
	Digest sqldigest.Digest
	// Scope is ScopeOf(Schema, User, Mode).
	Scope        Scope
	Schema, User []byte
	Mode         sqldigest.Mode
}

// A key is what a plan is found by: 256 bits of SHA-256 over the two halves of what decides it.
type key struct {
	digest sqldigest.Digest
	scope  Scope
}

// A Planner keeps plans by digest and scope. It is safe for concurrent use.
type Planner struct {
	opts   Options
	cache  *bytecache.Cache[key, *Plan]
	parser *sqlparser.Parser

	// epoch is held for reading while a plan is made and stored, for writing while the state
	// changes: a plan made under an old state is never stored under a new one.
	epoch sync.RWMutex
	state atomic.Pointer[state] // written under epoch

	parsers chan struct{} // a place for each goroutine that may run the parser at a time
	counts  counts
}

// state is what plans depend on besides their statement. It is never changed.
type state struct {
	rules      *ruleSet
	rulesEpoch uint64
}

// New returns a planner with an empty cache.
func New(o Options) (*Planner, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("make planner: %w", err)
	}
	o = o.withDefaults()
	rules, err := compileRules(o.Rules)
	if err != nil {
		return nil, fmt.Errorf("make planner: %w", err)
	}
	o.Rules = nil // the set has its own copy
	seed := maphash.MakeSeed()
	cache, err := bytecache.New(bytecache.Options[key, *Plan]{
		Capacity: o.CacheBytes,
		Hash:     func(k key) uint64 { return maphash.Comparable(seed, k) },
		Size:     func(_ key, p *Plan) int64 { return p.heapBytes() },
	})
	if err != nil {
		return nil, fmt.Errorf("make plan cache: %w", err)
	}
	parser, err := sqlparser.New(sqlparser.Options{MySQLServerVersion: parserVersion})
	if err != nil {
		return nil, fmt.Errorf("make parser: %w", err)
	}
	p := &Planner{
		opts: o, cache: cache, parser: parser,
		parsers: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
	}
	p.state.Store(&state{rules: rules})
	return p, nil
}

// Get returns the plan of the statement with that digest under that scope, or nil when it has to
// be made. It does not allocate and takes no lock.
func (p *Planner) Get(d sqldigest.Digest, s Scope) *Plan {
	plan, _ := p.cache.Get(key{digest: d, scope: s})
	return plan
}

// Plan makes the plan of a statement that Get had none for, and keeps it if it may. Goroutines that
// ask for the same one at the same time make it once. The plan is never nil, and the same
// whether it is kept or not. It holds on to nothing of st.
func (p *Planner) Plan(st Statement) *Plan {
	p.epoch.RLock()
	defer p.epoch.RUnlock()
	s := p.state.Load()
	whole := isWhole(&st)
	if why := p.refuse(&st, s, whole); why != keep {
		p.counts.refused[why].Add(1)
		plan, _ := p.make(&st, s, whole)
		return plan
	}
	plan, err := p.cache.Load(key{digest: st.Digest, scope: st.Scope}, func() (*Plan, bool, error) {
		plan, why := p.make(&st, s, whole)
		if why != keep {
			p.counts.refused[why].Add(1)
		}
		return plan, why == keep, nil
	})
	if err != nil {
		panic("BUG: making a plan that cannot fail failed: " + err.Error())
	}
	return plan
}

// isWhole reports whether the text is what the digest is of. Nothing else may decide a plan
// that others will be given.
func isWhole(st *Statement) bool {
	sum := sha256.Sum256(st.Text)
	return len(st.Text) <= maxText && sqldigest.Digest(sum[:16]) == st.Digest
}

// refuse returns why a plan must not be kept, as far as that is known before it is made.
func (p *Planner) refuse(st *Statement, s *state, whole bool) Refusal {
	switch {
	case !whole:
		return RefusedIncomplete
	case len(st.Text) > p.opts.MaxCachedStatement:
		return RefusedLong
	case st.Scope != s.scopeOf(st.Schema, st.User, st.Mode):
		return RefusedScope
	}
	return keep
}

// make makes a plan and says why it must not be kept. What it returns depends on the text, the
// digest, schema, user, mode and state alone; of a statement whose text is not whole, on SQL.
func (p *Planner) make(st *Statement, s *state, whole bool) (*Plan, Refusal) {
	var a analysis
	a.tables.schema = string(st.Schema)
	text := st.Text
	if !whole {
		text = st.SQL[:min(len(st.SQL), p.opts.MaxParse)]
	}
	a.scan(text, st.Mode)
	a.classify()
	if !whole && (!st.Complete || len(text) < len(st.SQL)) {
		a.hide()
		a.readOnly = false
	}
	if whole && len(text) <= p.opts.MaxParse {
		p.parsers <- struct{}{}
		a.parse(p.parser)
		<-p.parsers
	}
	a.conclude()
	if a.parsed {
		p.counts.parsed.Add(1)
	} else {
		p.counts.unparsed.Add(1)
	}
	plan := a.plan()
	rule, verdict := s.rules.judge(st, &a)
	plan.rule, plan.verdict = rule, verdict
	if a.listItems > p.opts.MaxListItems {
		return plan, RefusedList
	}
	return plan, keep
}

// SetRules puts other rules in force. Plans made under the old ones are unreachable when it
// returns, and their bytes are free. RulesEpoch changes: scopes computed before find
// nothing any more and have to be computed anew.
func (p *Planner) SetRules(rules []Rule) error {
	set, err := compileRules(rules)
	if err != nil {
		return fmt.Errorf("set rules: %w", err)
	}
	p.epoch.Lock()
	defer p.epoch.Unlock()
	p.state.Store(&state{rules: set, rulesEpoch: p.state.Load().rulesEpoch + 1})
	p.cache.Clear()
	return nil
}

// RulesEpoch changes when scopes have to be computed anew. It costs two loads.
func (p *Planner) RulesEpoch() uint64 { return p.state.Load().rulesEpoch }

// Invalidate forgets all plans, as after a change of the schema. Plans under way when it is called
// are not kept either.
func (p *Planner) Invalidate() {
	p.epoch.Lock()
	defer p.epoch.Unlock()
	p.cache.Clear()
}

// conclude draws the last consequences of what was found.
func (a *analysis) conclude() {
	if a.parsed {
		if a.tables.unknownCall {
			a.effects |= EffectFunction
			a.readOnly = false
		}
		if a.typ == TypeExplain && a.readOnly {
			for i := range a.tables.list { // nothing of it is run
				a.tables.list[i].access = AccessRead
			}
		}
		return
	}
	a.guessTables()
	switch a.typ {
	case TypeBegin, TypeCommit, TypeRollback, TypeSavepoint, TypeUse, TypeUnlock, TypeDeallocate, TypeKill, TypeXA:
		a.parsed = !a.opaque // they name no table, in whatever form
	case TypeSelect, TypeInsert, TypeReplace, TypeUpdate, TypeDelete, TypeLoad, TypeMulti:
		a.effects |= EffectFunction
		a.readOnly = false
	case TypeSet, TypeDo, TypeExplain:
		if a.depth > 0 {
			a.effects |= EffectFunction
			a.readOnly = false
		} else if a.typ == TypeSet && !a.opaque {
			a.parsed = true // no subquery: no table
		}
	}
}

// plan packs what was found into a plan of two exact objects.
func (a *analysis) plan() *Plan {
	var b []byte
	for _, t := range a.tables.list {
		b = appendTable(b, t)
	}
	p := &Plan{typ: a.typ, effects: a.effects, tablesEnd: uint32(len(b))}
	for _, h := range a.hints {
		b = appendHint(b, a.text[h[0]:h[1]])
	}
	p.hintsEnd = uint32(len(b))
	last := 0
	for _, i := range a.literals {
		at := int(a.toks[i].start)
		b = appendPosition(b, at-last)
		last = at
	}
	p.end = uint32(len(b))
	p.literals = uint32(len(a.literals))
	if n := len(b); n > 0 && n < leastArena {
		b = append(b, make([]byte, leastArena-n)...)
	}
	p.arena = string(slices.Clip(b))
	if a.readOnly {
		p.flags |= flagReadOnly
	}
	if a.parsed {
		p.flags |= flagParsed
	}
	return p
}

// leastArena is the size under which the allocator would pack an arena together with
// strangers, which would then keep its memory alive.
const leastArena = 16
