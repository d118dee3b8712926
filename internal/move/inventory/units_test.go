package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/binlog"
)

// TestInventoryTexts lists objects that need a hand, were left out, and have changed.
func TestInventoryTexts(t *testing.T) {
	object := func(k Kind, name string, f Fate) *Object {
		return &Object{Kind: k, Schema: "s", Name: name, Fate: f, Why: "why " + name}
	}
	if (*Inventory)(nil).Copied(Table) != nil {
		t.Error("no inventory has copied tables")
	}
	inv := &Inventory{Objects: []*Object{object(Table, "a", Copied), object(View, "b", LeftOut)}}
	if err := inv.Err(); err != nil || len(inv.Copied(Table)) != 1 || len(inv.Copied(View)) != 0 || inv.Count(LeftOut) != 1 {
		t.Errorf("%v, %v", err, inv.Copied(Table))
	}
	for _, n := range []int{1, 2, shownObjects, shownObjects + 1, shownObjects + 9} {
		inv := &Inventory{Objects: []*Object{object(Table, "copied", Copied)}}
		for i := range n {
			inv.Objects = append(inv.Objects, object(View, fmt.Sprintf("v%d.", i), NeedsHand))
		}
		text := inv.Err().Error()
		shown, more := strings.Count(text, ": why v"), strings.Contains(text, "more; option dry-run")
		if shown != min(n, shownObjects) || more != (n > shownObjects) || more && !strings.Contains(text, fmt.Sprintf("and %d more", n-shownObjects)) || strings.Contains(text, "option exclude-users") ||
			!strings.Contains(text, "by option exclude or option objects:\n") || strings.HasPrefix(text, "1 object needs a hand") != (n == 1) || n > 1 && !strings.HasPrefix(text, fmt.Sprint(n, " objects need a hand")) {
			t.Errorf("%d objects: %.300s", n, text)
		}
		inv.Objects = append(inv.Objects, object(Account, "u", NeedsHand))
		if text := inv.Err().Error(); !strings.Contains(text, "option exclude, option objects or option exclude-users") {
			t.Errorf("an account: %.300s", text)
		}
	}
	for _, o := range []struct {
		o    *Object
		want string
	}{{object(Table, "t", ""), "s.t"}, {object(Schema, "t", ""), "s"}, {object(Account, "u@%", ""), "u@%"}} {
		if o.o.FullName() != o.want || o.o.String() != string(o.o.Kind)+" "+o.want {
			t.Errorf("%s, want %s", o.o, o.want)
		}
	}
	x := &Object{Fate: Copied}
	x.needsHand("first %d", 1)
	x.needsHand("second")
	x.needsHand("first %d", 1)
	if x.Fate != NeedsHand || x.Why != "first 1; second" {
		t.Errorf("%s: %s", x.Fate, x.Why)
	}
	x = &Object{Fate: LeftOut, Why: "excluded"}
	if x.needsHand("first"); x.Fate != LeftOut || x.Why != "excluded" {
		t.Errorf("%s: %s", x.Fate, x.Why)
	}

	inv = &Inventory{Objects: []*Object{object(View, "b", LeftOut), object(Table, "a", Copied), {Kind: Trigger, Schema: "s", Name: "x", Table: "t", Fate: LeftOut}, object(View, "", LeftOut), object(Account, "u", LeftOut), {Kind: View, Schema: "other", Name: "c", Fate: NeedsHand}}}
	var texts []string
	for _, n := range inv.NotCopied() {
		texts = append(texts, fmt.Sprint(n.Kind, " ", n.Schema, " ", strings.Join(n.Names, "+")))
	}
	if want := []string{string(View) + " s b+(not visible)", string(Trigger) + " s x on t", string(View) + " other c"}; !slices.Equal(texts, want) {
		t.Errorf("not copied: %q, want %q", texts, want)
	}

	before := func() *Inventory {
		return &Inventory{Objects: []*Object{
			{Kind: Schema, Schema: "s", Collation: "c"},
			{Kind: Table, Schema: "s", Name: "t"},
			{Kind: View, Schema: "s", Name: "v", Definition: "d"},
			{Kind: Sequence, Schema: "s", Name: "q", Definition: "d"},
			{Kind: Account, Name: "u"},
			{Kind: Table, Schema: "s", Name: binlog.HeartbeatTable},
		}}
	}
	for what, c := range map[string]struct {
		change func(*Inventory)
		want   string
	}{
		"nothing":         {func(*Inventory) {}, ""},
		"a definition":    {func(i *Inventory) { i.Objects[2].Definition = "other" }, string(View) + " s.v was altered"},
		"a context":       {func(i *Inventory) { i.Objects[2].Context.SQLMode = "other" }, string(View) + " s.v was altered"},
		"a sequence":      {func(i *Inventory) { i.Objects[3].Definition = "other" }, ""},
		"a collation":     {func(i *Inventory) { i.Objects[0].Collation = "other" }, string(Schema) + " s was altered"},
		"a view's":        {func(i *Inventory) { i.Objects[2].Collation = "other" }, ""},
		"a new one":       {func(i *Inventory) { i.Objects = append(i.Objects, &Object{Kind: Table, Schema: "s", Name: "n"}) }, string(Table) + " s.n was created"},
		"another kind":    {func(i *Inventory) { i.Objects[1].Kind = View }, string(View) + " s.t was created, " + string(Table) + " s.t was dropped"},
		"one less":        {func(i *Inventory) { i.Objects = slices.Delete(i.Objects, 1, 2) }, string(Table) + " s.t was dropped"},
		"heartbeats less": {func(i *Inventory) { i.Objects = i.Objects[:5] }, ""},
		"heartbeats before": {func(i *Inventory) {
			i.Objects = append(i.Objects, &Object{Kind: View, Schema: "s", Name: binlog.HeartbeatTable})
		}, ""},
	} {
		later := before()
		c.change(later)
		later.Objects = slices.DeleteFunc(later.Objects, func(o *Object) bool { return o.Kind == Account }) // which Read does not list
		if got := strings.Join(before().Changed(later), ", "); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// TestWildcards matches names with patterns.
func TestWildcards(t *testing.T) {
	for pattern, texts := range map[string][2][]string{ // those that match, and those that do not
		"":      {{""}, {"a"}},
		"a":     {{"a"}, {"", "A", "b", "aa"}},
		"*":     {{"", "a", "äö"}, nil},
		"**":    {{"", "ab"}, nil},
		"?":     {{"a", "ä"}, {"", "ab"}},
		"a*":    {{"a", "ab", "abc"}, {"", "ba"}},
		"*a":    {{"a", "ba", "aa", "aba"}, {"", "ab"}},
		"a*b*c": {{"abc", "axbxc", "abcbc", "abbcc"}, {"ab", "acb", "abcd"}},
		"*?":    {{"a", "abc"}, {""}},
		"?*?":   {{"ab", "abc"}, {"a", ""}},
		"a?c":   {{"abc", "aäc"}, {"ac", "abbc"}},
		"*ab":   {{"ab", "aab", "abab"}, {"aba"}},
	} {
		for i, all := range texts {
			for _, text := range all {
				if wildcard(pattern, text) != (i == 0) {
					t.Errorf("%q matches %q: %t", pattern, text, i != 0)
				}
			}
		}
		if IsPattern(pattern) != strings.ContainsAny(pattern, "*?") {
			t.Errorf("%q is a pattern: %t", pattern, !strings.ContainsAny(pattern, "*?"))
		}
	}
	p := Pattern{"s*", "t?"}
	for name, want := range map[[2]string]bool{{"s", "t1"}: true, {"sx", "t2"}: true, {"x", "t1"}: false, {"s", "t"}: false} {
		if p.Match(name[0], name[1]) != want {
			t.Errorf("%s matches %s: %t", p, name, !want)
		}
	}
}

// TestDisabledEvents has events of each status, whose texts have the same words in quotes.
func TestDisabledEvents(t *testing.T) {
	for text, want := range map[string]string{
		"CREATE EVENT e ON SCHEDULE EVERY 1 DAY ON COMPLETION NOT PRESERVE ENABLE DO SELECT 1":                                   "CREATE EVENT e ON SCHEDULE EVERY 1 DAY ON COMPLETION NOT PRESERVE DISABLE DO SELECT 1",
		"CREATE EVENT e ON COMPLETION PRESERVE DISABLE ON SLAVE DO SELECT ' ON COMPLETION PRESERVE ENABLE'":                      "CREATE EVENT e ON COMPLETION PRESERVE DISABLE DO SELECT ' ON COMPLETION PRESERVE ENABLE'",
		"CREATE EVENT e ON COMPLETION PRESERVE DISABLE ON REPLICA DO SELECT 1":                                                   "CREATE EVENT e ON COMPLETION PRESERVE DISABLE DO SELECT 1",
		"CREATE EVENT ` ON COMPLETION PRESERVE ENABLE` ON COMPLETION PRESERVE DISABLE DO SELECT 1 ON COMPLETION PRESERVE ENABLE": "CREATE EVENT ` ON COMPLETION PRESERVE ENABLE` ON COMPLETION PRESERVE DISABLE DO SELECT 1 ON COMPLETION PRESERVE ENABLE",
		"CREATE EVENT e ON COMPLETION PRESERVE ENABLED DO SELECT 1":                                                              "", "CREATE EVENT e DO SELECT ' ON COMPLETION PRESERVE ENABLE'": "", "": "",
	} {
		if got, err := disabledEvent(text, 0); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
}
