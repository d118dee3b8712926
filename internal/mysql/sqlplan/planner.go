package sqlplan

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/sizegen/bytecache"
	"github.com/taredb/tare/sizegen/heapsize"
)

// A Statement is the input of Plan.
type Statement struct {
	// SQL is the original statement, whole or a prefix. It is classified if Text is not the whole normalized
	// text, and otherwise checked for divergence.
	SQL []byte
	// Complete reports that SQL is whole.
	Complete bool
	// Judged reports that the statements of SQL, which may be a prefix, were planned one by one: its part past the
	// prefix counts for the effects, and not for the verdict.
	Judged bool
	// After is set for one of several statements of a text that follows others.
	After After
	// Text is the normalized text, as far as the digester kept it.
	Text []byte
	// Digest is the digest of the whole normalized text.
	Digest sqldigest.Digest
	// Scope is ScopeOf(Schema, User, Mode), or the result of its methods After and Divergent.
	Scope        Scope
	Schema, User []byte
	Mode         sqldigest.Mode
}

// A key identifies a plan: 256 bits of SHA-256 over the two parts that determine it.
type key struct {
	digest sqldigest.Digest
	scope  Scope
}

// A Planner keeps plans by digest and scope. It is safe for concurrent use.
type Planner struct {
	opts   Options
	cache  *bytecache.Cache[key, *Plan]
	parser *sqlparser.Parser

	// epoch is read-locked while a plan is created and stored, and locked while the state changes: a plan
	// created under an old state is never stored under a new one.
	epoch sync.RWMutex
	state atomic.Pointer[state] // written under epoch

	parsers chan struct{} // a slot for each goroutine that may run the parser concurrently
	walks   sync.Pool     // of *heapsize.Walk, each with Detach set and empty
	counts  counts
}

// state is the input of plans besides their statement. It is immutable.
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
	o.Rules = nil // the set has a copy
	seed := maphash.MakeSeed()
	cache, err := bytecache.New(bytecache.Options[key, *Plan]{
		Capacity: o.CacheBytes,
		Hash:     func(k key) uint64 { return maphash.Comparable(seed, k) },
		Size:     func(_ key, p *Plan) int64 { return int64(p.bytes) },
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
		walks:   sync.Pool{New: func() any { return &heapsize.Walk{Detach: true} }},
	}
	p.state.Store(&state{rules: rules})
	return p, nil
}

// Get returns the plan of the statement with that digest under that scope, or nil on a miss. It does not
// allocate and takes no lock.
func (p *Planner) Get(d sqldigest.Digest, s Scope) *Plan {
	plan, _ := p.cache.Get(key{digest: d, scope: s})
	return plan
}

// Plan creates the plan of a statement after a miss of Get, and caches it if permitted. Concurrent calls for
// the same statement create it once. The plan is never nil, and does not depend on whether it is cached. It
// retains nothing of st.
func (p *Planner) Plan(st Statement) *Plan {
	p.epoch.RLock()
	defer p.epoch.RUnlock()
	s := p.state.Load()
	j := job{Statement: &st, whole: isWhole(&st)}
	own := s.scopeOf(st.Schema, st.User, st.Mode).After(st.After)
	j.divergent = st.Scope == own.Divergent() || sqldigest.Divergent(st.SQL, st.Mode)
	if why := p.refuse(j, own); why != keep {
		p.counts.refused[why].Add(1)
		plan, _ := p.make(j, s)
		return plan
	}
	plan, err := p.cache.Load(key{digest: st.Digest, scope: st.Scope}, func() (*Plan, bool, error) {
		plan, why := p.make(j, s)
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

// A job is a statement to plan, with properties determined beforehand.
type job struct {
	*Statement
	whole     bool // Digest is the digest of Text
	divergent bool
}

// isWhole reports whether the digest is that of the text. Nothing else may determine a plan that is shared.
func isWhole(st *Statement) bool {
	return len(st.Text) <= maxText && sqldigest.OfText(st.Text) == st.Digest
}

// refuse returns the reason why a plan must not be cached, as far as it is known before its creation. own is
// the scope of the job's session under the current rules.
func (p *Planner) refuse(j job, own Scope) Refusal {
	if j.divergent {
		own = own.Divergent()
	}
	switch {
	case !j.whole:
		return RefusedIncomplete
	case len(j.Text) > p.opts.MaxCachedStatement:
		return RefusedLong
	case j.Scope != own:
		return RefusedScope
	}
	return keep
}

// make creates a plan and returns the reason why it must not be cached, if any. A cached plan depends only on
// text, digest, scope, schema, user, mode and state.
func (p *Planner) make(j job, s *state) (*Plan, Refusal) {
	var a analysis
	a.tables.schema, a.tables.server, a.tables.charset = string(j.Schema), j.Mode.Server(), j.Mode.Charset()
	text := j.Text
	if !j.whole {
		text = j.SQL[:min(len(j.SQL), p.opts.MaxParse)]
	}
	if a.scan(text, j.Mode) {
		a.hide()
	}
	a.unsure = j.divergent || j.Mode.Unknown()
	cut := !j.whole && (!j.Complete || len(text) < len(j.SQL))
	if a.unsure || cut && !j.Judged {
		a.hide()
	}
	a.follow(j.After)
	a.classify()
	if j.whole && j.After == 0 && len(text) <= p.opts.MaxParse {
		p.parse(&a)
	}
	a.conclude()
	if a.parsed {
		p.counts.parsed.Add(1)
	} else {
		p.counts.unparsed.Add(1)
	}
	rule, verdict := s.rules.evaluate(j.Statement, &a)
	if verdict != VerdictDenied {
		a.lacking = ""
	}
	if cut {
		a.effects, a.readOnly, a.remode = a.effects|EffectUnknown|EffectSQLMode, false, true
	}
	plan := a.plan()
	plan.rule, plan.verdict = rule, verdict
	p.detach(plan)
	if a.listItems > p.opts.MaxListItems {
		return plan, RefusedList
	}
	return plan, keep
}

// detach gives the plan an exact arena and records its cost before it is published.
func (p *Planner) detach(plan *Plan) {
	w := p.walks.Get().(*heapsize.Walk)
	size, err := plan.CachedSize(w)
	if err != nil {
		panic("BUG: a plan holds an interface: " + err.Error())
	}
	plan.bytes = uint32(size)
	w.Reset() // releases references to the plan
	p.walks.Put(w)
}

// parse runs the parser when a slot is free.
func (p *Planner) parse(a *analysis) {
	p.parsers <- struct{}{}
	defer func() { <-p.parsers }()
	a.parse(p.parser)
}

// SetRules replaces the rules. When it returns, plans created under the old rules are unreachable and their
// bytes are free. RulesEpoch changes: scopes computed before find nothing any more and must be recomputed.
func (p *Planner) SetRules(rules []Rule) error {
	set, err := compileRules(rules)
	if err != nil {
		return fmt.Errorf("set rules: %w", err)
	}
	p.epoch.Lock()
	defer p.epoch.Unlock()
	set.inherit(p.state.Load().rules)
	p.state.Store(&state{rules: set, rulesEpoch: p.state.Load().rulesEpoch + 1})
	p.cache.Clear()
	return nil
}

// RulesEpoch returns a number that changes when scopes must be recomputed. It costs two loads.
func (p *Planner) RulesEpoch() uint64 { return p.state.Load().rulesEpoch }

// HasRules reports whether there are rules.
func (p *Planner) HasRules() bool { return len(p.state.Load().rules.rules) > 0 }

// Invalidate drops all plans, as after a change of the schema. Plans in creation when it is called are not
// cached either.
func (p *Planner) Invalidate() {
	p.epoch.Lock()
	defer p.epoch.Unlock()
	p.cache.Clear()
}
