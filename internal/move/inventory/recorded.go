package inventory

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A dump has the inventory of its source, and later no source that could be queried: what Judge and Create would query is recorded.

// A Reference is the name of an object that a view refers to.
type Reference struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
}

// reference is a quoted name with its schema.
var reference = regexp.MustCompile("`((?:[^`]|``)+)`\\.`((?:[^`]|``)+)`")

// referable returns the objects of the inventory that views may refer to, and whether they are copied.
func (inv *Inventory) referable() map[Reference]bool {
	all := make(map[Reference]bool)
	for _, o := range inv.Objects {
		switch o.Kind {
		case Table, View, Function, Sequence:
			all[Reference{o.Schema, o.Name}] = o.Fate != LeftOut
		}
	}
	return all
}

// ReadReferences sets the references of the views: the names in their definitions that are objects of the source.
func (inv *Inventory) ReadReferences(ctx context.Context, source session.Querier) error {
	known := make(map[Reference]bool)
	for r := range inv.referable() {
		known[r] = true
	}
	for _, o := range inv.Objects {
		if o.Kind != View || o.Fate == LeftOut {
			continue
		}
		o.References = nil
		for _, m := range reference.FindAllStringSubmatch(o.Definition, -1) {
			r := Reference{strings.ReplaceAll(m[1], "``", "`"), strings.ReplaceAll(m[2], "``", "`")}
			if _, ok := known[r]; !ok {
				var err error
				if known[r], err = r.exists(ctx, source); err != nil {
					return err
				}
			}
			if known[r] && !slices.Contains(o.References, r) {
				o.References = append(o.References, r)
			}
		}
	}
	return nil
}

// exists reports whether a server has an object of the name.
func (r Reference) exists(ctx context.Context, q session.Querier) (found bool, err error) {
	s, n := session.SchemaText(r.Schema), session.SchemaText(r.Name)
	err = q.Query(ctx, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+s+" AND TABLE_NAME = "+n+
		" UNION SELECT 1 FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = "+s+" AND ROUTINE_NAME = "+n, func(mysqlwire.TextRow) error {
		found = true
		return nil
	})
	return found, err
}

// ReadSequences sets the next values of the sequences that are copied.
func (inv *Inventory) ReadSequences(ctx context.Context, source session.Querier) error {
	for _, o := range inv.Copied(Sequence) {
		if err := source.Query(ctx, "SELECT next_not_cached_value FROM "+o.sqlName(), func(row mysqlwire.TextRow) error {
			o.Next = string(row[0])
			return nil
		}); err != nil {
			return fmt.Errorf("read %s: %w", o, err)
		}
	}
	return nil
}

// Select returns the objects of a recorded inventory with the fates that a selection gives them, which is read as by Read; an empty one leaves the
// recorded fates. Objects that are not recorded with a definition stay left out.
func (inv *Inventory) Select(sel *Selection) (*Inventory, error) {
	if sel.Empty() {
		sel = nil
	}
	r := &reader{sel: sel, inv: &Inventory{Source: inv.Source}, used: make(map[Pattern]bool)}
	schemas := make(map[string]bool)
	for _, recorded := range inv.Objects {
		o := *recorded
		o.Exists = false
		schemas[o.Schema] = true
		switch {
		case sel == nil:
			if err := CheckUnnamed(o.Schema, o.Name); err != nil && o.Kind != Schema {
				o.needsHand("%v", err)
			}
			r.inv.Objects = append(r.inv.Objects, &o)
		case !r.asked(o.Schema):
		case o.Fate == Copied:
			r.add(&o)
		default:
			o.Why = "not in the dump: " + strings.TrimPrefix(o.Why, "not in the dump: ")
			r.inv.Objects = append(r.inv.Objects, &o)
		}
	}
	if sel == nil {
		return r.inv, nil
	}
	for _, name := range sel.Schemas {
		if isSystem(name) {
			return nil, errSystem(name)
		}
		if !schemas[name] {
			return nil, fmt.Errorf("schema %s is not in the dump", name)
		}
	}
	for _, p := range slices.Concat(sel.Tables, sel.Exclude) {
		if !r.used[p] {
			return nil, fmt.Errorf("%s matches nothing in the dump", p)
		}
	}
	return r.inv, nil
}
