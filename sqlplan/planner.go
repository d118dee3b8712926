package sqlplan

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/sizegen/bytecache"
	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sqldigest"
)

// A Statement is what Plan needs to know about a statement in order to plan it.
type Statement struct {
	// SQL is the statement as the client sent it, whole or its beginning. It is classified when
	// Text is not the whole normalized text, and otherwise checked for what is Divergent.
	SQL []byte
	// Complete says that SQL is whole.
	Complete bool
	// Text is the normalized text, as far as the digester kept it.
	Text []byte
	// Digest is the digest of the whole normalized text.
	Digest sqldigest.Digest
	// Scope is ScopeOf(Schema, User, Mode), or what its method Divergent returns.
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
	walks   sync.Pool     // of *heapsize.Walk, each with Detach set and nothing walked
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
	j := job{Statement: &st, whole: isWhole(&st)}
	own := s.scopeOf(st.Schema, st.User, st.Mode)
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

// A job is a statement to be planned, and what was found out about it first.
type job struct {
	*Statement
	whole     bool // Text is what Digest is of
	divergent bool
}

// isWhole reports whether the text is what the digest is of. Nothing else may decide a plan
// that others will be given.
func isWhole(st *Statement) bool {
	return len(st.Text) <= maxText && sqldigest.OfText(st.Text) == st.Digest
}

// refuse returns why a plan must not be kept, as far as that is known before it is made. The
// scope of the job's session under the rules in force is own.
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

// make makes a plan and says why it must not be kept. One that is kept depends on text,
// digest, scope, schema, user, mode and state alone.
func (p *Planner) make(j job, s *state) (*Plan, Refusal) {
	var a analysis
	a.tables.schema, a.tables.server = string(j.Schema), j.Mode.Server()
	text := j.Text
	if !j.whole {
		text = j.SQL[:min(len(j.SQL), p.opts.MaxParse)]
	}
	a.scan(text, j.Mode)
	if j.divergent || j.Mode.Unknown() || !j.whole && (!j.Complete || len(text) < len(j.SQL)) {
		a.hide()
	}
	a.classify()
	if j.whole && len(text) <= p.opts.MaxParse {
		p.parse(&a)
	}
	a.conclude()
	if a.parsed {
		p.counts.parsed.Add(1)
	} else {
		p.counts.unparsed.Add(1)
	}
	plan := a.plan()
	rule, verdict := s.rules.judge(j.Statement, &a)
	plan.rule, plan.verdict = rule, verdict
	p.detach(plan)
	if a.listItems > p.opts.MaxListItems {
		return plan, RefusedList
	}
	return plan, keep
}

// detach gives the plan an arena of its own and notes what it costs, before anybody sees it.
func (p *Planner) detach(plan *Plan) {
	w := p.walks.Get().(*heapsize.Walk)
	size, err := plan.CachedSize(w)
	if err != nil {
		panic("BUG: a plan holds an interface: " + err.Error())
	}
	plan.bytes = uint32(size)
	w.Reset() // holds on to nothing of the plan
	p.walks.Put(w)
}

// parse runs the parser when there is a place for one more.
func (p *Planner) parse(a *analysis) {
	p.parsers <- struct{}{}
	defer func() { <-p.parsers }()
	a.parse(p.parser)
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
	set.inherit(p.state.Load().rules)
	p.state.Store(&state{rules: set, rulesEpoch: p.state.Load().rulesEpoch + 1})
	p.cache.Clear()
	return nil
}

// RulesEpoch changes when scopes have to be computed anew. It costs two loads.
func (p *Planner) RulesEpoch() uint64 { return p.state.Load().rulesEpoch }

// HasRules reports whether any rule is in force.
func (p *Planner) HasRules() bool { return len(p.state.Load().rules.rules) > 0 }

// Invalidate forgets all plans, as after a change of the schema. Plans under way when it is called
// are not kept either.
func (p *Planner) Invalidate() {
	p.epoch.Lock()
	defer p.epoch.Unlock()
	p.cache.Clear()
}
