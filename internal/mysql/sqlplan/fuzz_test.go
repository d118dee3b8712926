package sqlplan

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/sizegen/heapsize"
)

// FuzzPlan asserts for any text in any mode: no panic; the plan is readable; it depends on the normalized
// text only; no unparsed statement with a hidden part is read-only; and the plan's properties do not
// contradict each other.
func FuzzPlan(f *testing.F) {
	for _, sql := range []string{
		"select * from t where a = 'x'", "insert into t values (1, 2), (3, 4)", "set sql_mode = 'ANSI', @a := 1",
		"with c as (select 1) delete from t using t join c", "select 1; set names gbk; select \"a",
		"create table t (a varchar(3) comment 'x', b enum('a','b'))", "/*!99999 select */ 1", "/*M!100100 '*/ --",
		"set statement a = 1 for select 1", "create procedure p() begin select 1; end", "select @@`a`.b, @'x y', @@",
		"select /*+ a( */ 1", "drop database", "update t, u set t.a = 1", "explain analyze select 1 for update",
		"select substring('a', 1, 2), interval(1, 2), f(...) from a.b.c", "values row(1), row(2)", "set", "set @", ";;",
	} {
		f.Add([]byte(sql), uint8(0), true)
	}
	p := newPlanner(f,
		Rule{Name: "t", Action: ActionBlock, Tables: []string{"*.secret*", "v?.*"}, Users: []string{"a"}},
		Rule{Name: "ro", Action: ActionReadOnly, Tables: []string{"shop.*"}, Types: []Type{TypeDelete, TypeMulti}},
	)
	f.Fuzz(func(t *testing.T, sql []byte, mode uint8, complete bool) {
		defer alloctest.Bounded(t, 64<<20)()
		var d sqldigest.Digester
		m := sqldigest.Mode(mode & 3)
		st := Statement{SQL: sql, Complete: complete, Schema: []byte("shop"), User: []byte("a"), Mode: m}
		st.Digest = d.Digest(sql, m)
		st.Text = d.Text()
		st.Scope = p.ScopeOf(st.Schema, st.User, m)
		if sqldigest.Divergent(sql, m) {
			st.Scope = st.Scope.Divergent()
		}
		p.Invalidate()
		plan := p.Plan(st)
		checkPlan(t, plan, st.Text)

		// The same text from other bytes gives the same plan.
		other := st
		other.SQL = nil
		p.Invalidate()
		if again := p.Plan(other); *again != *plan {
			t.Errorf("plan %+v, of the text alone %+v", plan, again)
		}

		// Nothing favorable is assumed about a truncated statement.
		cut := st
		cut.Text, cut.Complete = nil, false
		part := p.Plan(cut)
		checkPlan(t, part, nil)
		if len(st.Text) > 0 && (part.ReadOnly() || !part.Effects().Has(EffectUnknown)) {
			t.Errorf("a statement not seen whole is read-only=%v, effects %v", part.ReadOnly(), part.Effects())
		}
		plan.SessionMode(sql, m)
		part.SessionMode(sql, m)
	})
}

func checkPlan(t *testing.T, p *Plan, text []byte) {
	t.Helper()
	if p.Type() >= typeCount {
		t.Errorf("type %v", p.Type())
	}
	for table := range p.Tables() {
		if table.Access == 0 || table.Access > AccessRead|AccessWrite || table.Name == "" && table.Schema == "" {
			t.Errorf("table %+v", table)
		}
	}
	for range p.Hints() {
	}
	n := 0
	for at := range p.LiteralPositions() {
		n++
		if text != nil && (at >= len(text) || !bytes.ContainsRune([]byte("?.'\"0123456789\\xXbBnN"), rune(text[at]))) {
			t.Errorf("literal at %d of %q", at, text)
		}
	}
	if n != p.Literals() {
		t.Errorf("%d literals at %d positions", p.Literals(), n)
	}
	if p.ReadOnly() {
		if p.Effects().Any(EffectUnknown | EffectFile | EffectSchema | EffectGlobalVar | EffectRowLocks | EffectFunction) {
			t.Errorf("read-only with effects %v", p.Effects())
		}
		switch p.Type() {
		case TypeInsert, TypeReplace, TypeUpdate, TypeDelete, TypeDDL, TypeCall, TypeLoad, TypeMulti, TypeUnknown, TypeGrant:
			t.Errorf("read-only %v", p.Type())
		}
	}
	if v, rule := p.Verdict(); (v == VerdictPass) != (rule == "") {
		t.Errorf("verdict %v by %q", v, rule)
	}
	if got, err := p.CachedSize(new(heapsize.Walk)); err != nil || got != int64(p.bytes) || got < int64(unsafe.Sizeof(*p)) {
		t.Errorf("a plan is accounted with %d bytes, counted again it has %d, %v", p.bytes, got, err)
	}
}
