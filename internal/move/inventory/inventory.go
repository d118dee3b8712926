package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
)

// A Kind is the kind of an object.
type Kind string

// The kinds of objects, in the order in which they are listed and created.
const (
	Schema    Kind = "schema"
	Sequence  Kind = "sequence"
	Table     Kind = "table"
	Function  Kind = "function"
	Procedure Kind = "procedure"
	Package   Kind = "package"
	Library   Kind = "library"
	View      Kind = "view"
	Event     Kind = "event"
	Trigger   Kind = "trigger"
	Grantee   Kind = "grantee" // an account that has privileges on the schema or its tables
	Account   Kind = "account" // an account that is copied, of no schema: see package accounts
)

var kindOrder = []Kind{Schema, Sequence, Table, Function, Procedure, Package, Library, View, Event, Trigger, Grantee, Account}

// A Fate says whether an object is copied, left out or blocks the copy.
type Fate string

// The fates of objects.
const (
	Copied    Fate = "copied"
	LeftOut   Fate = "left out"
	NeedsHand Fate = "needs a hand" // the copy does not start
)

// An Object is an object of the source. Its JSON is stable: fields are added, never renamed.
type Object struct {
	Kind   Kind   `json:"kind"`
	Schema string `json:"schema"`
	Name   string `json:"name"`            // of a schema: its own; empty: objects of the kind that the account cannot see
	Table  string `json:"table,omitempty"` // of a trigger
	Fate   Fate   `json:"fate"`
	Why    string `json:"why,omitempty"`  // not empty unless it is copied
	Note   string `json:"note,omitempty"` // what is different in the target
	Exists bool   `json:"exists"`         // in the target, with the same definition

	RowsEstimate  int64  `json:"rows_estimate,omitempty"`  // of a table
	BytesEstimate int64  `json:"bytes_estimate,omitempty"` // of a table, without indexes
	AutoIncrement uint64 `json:"auto_increment,omitempty"` // the next value, of a table
	Collation     string `json:"collation,omitempty"`      // the default of a schema or table

	Definer    string  `json:"definer,omitempty"`    // user@host
	Definition string  `json:"definition,omitempty"` // the text of SHOW CREATE on the source; not of a table
	Context    Context `json:"context,omitzero"`

	Acts       string      `json:"acts,omitempty"`       // when a trigger acts, on what, and how
	References []Reference `json:"references,omitempty"` // objects of the source that a view refers to
	Next       string      `json:"next,omitempty"`       // of a sequence in a dump: its next value

	target Definition // in the target
}

// A Context is the settings that a stored object was created with and keeps.
type Context struct {
	SQLMode    string `json:"sql_mode,omitempty"`
	Client     string `json:"character_set_client,omitempty"`
	Connection string `json:"collation_connection,omitempty"`
	Database   string `json:"database_collation,omitempty"`
	TimeZone   string `json:"time_zone,omitempty"` // of an event
	Status     string `json:"status,omitempty"`    // of an event: ENABLED, …
}

// A Definition is the statement that creates an object, with its settings.
type Definition struct {
	Text    string
	Context Context
	acts    string // of a trigger
}

// FullName returns the name of the object with its schema, for people.
func (o *Object) FullName() string {
	switch o.Kind {
	case Schema:
		return o.Schema
	case Account:
		return o.Name
	}
	return o.Schema + "." + o.Name
}

// String returns the kind and the name.
func (o *Object) String() string { return string(o.Kind) + " " + o.FullName() }

// needsHand sets the fate, unless the object is left out anyway. Reasons are collected.
func (o *Object) needsHand(format string, args ...any) {
	if o.Fate == LeftOut {
		return
	}
	why := fmt.Sprintf(format, args...)
	if o.Fate == NeedsHand && strings.Contains(o.Why, why) {
		return
	}
	if o.Fate == NeedsHand {
		why = o.Why + "; " + why
	}
	o.Fate, o.Why = NeedsHand, why
}

// An Inventory is all objects of the schemas that a selection names, ordered by schema, kind and name; triggers of a table in the order in
// which they act.
type Inventory struct {
	Source  dialect.Vendor `json:"-"`
	Objects []*Object      `json:"objects"`
}

// Count returns how many objects have a fate.
func (inv *Inventory) Count(f Fate) (n int) {
	for _, o := range inv.Objects {
		if o.Fate == f {
			n++
		}
	}
	return n
}

// Copied returns the objects of a kind that are copied, in order.
func (inv *Inventory) Copied(k Kind) (all []*Object) {
	if inv == nil {
		return nil
	}
	for _, o := range inv.Objects {
		if o.Kind == k && o.Fate == Copied {
			all = append(all, o)
		}
	}
	return all
}

// Err returns an error that lists the objects which need a hand, nil if none does.
func (inv *Inventory) Err() error {
	var lines []string
	options := "option exclude or option objects"
	for _, o := range inv.Objects {
		if o.Fate == NeedsHand {
			if o.Kind == Account {
				options = "option exclude, option objects or option exclude-users"
			}
			lines = append(lines, "  "+o.String()+": "+o.Why)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	n := len(lines)
	if n > shownObjects {
		lines = append(lines[:shownObjects], fmt.Sprintf("  and %d more; option dry-run with option json lists all", n-shownObjects))
	}
	text := fmt.Sprintf("%d objects need a hand before anything can be copied, and nothing was written; correct them, or leave them out", n)
	if n == 1 {
		text = "1 object needs a hand before anything can be copied, and nothing was written; correct it, or leave it out"
	}
	return fmt.Errorf("%s by %s:\n%s", text, options, strings.Join(lines, "\n"))
}

// shownObjects is how many objects a text lists.
const shownObjects = 50

// NotCopied returns the objects that are left out, as a copy reports them. Its report about accounts has those.
func (inv *Inventory) NotCopied() (all []telemetry.NotCopied) {
	for _, o := range inv.Objects {
		if o.Fate == Copied || o.Kind == Account {
			continue
		}
		name := cmp.Or(o.Name, "(not visible)")
		if o.Table != "" {
			name += " on " + o.Table
		}
		i := slices.IndexFunc(all, func(n telemetry.NotCopied) bool { return n.Kind == string(o.Kind) && n.Schema == o.Schema })
		if i < 0 {
			i = len(all)
			all = append(all, telemetry.NotCopied{Kind: string(o.Kind), Schema: o.Schema})
		}
		all[i].Names = append(all[i].Names, name)
	}
	return all
}

// sort orders the objects. The order of triggers is that in which they were read.
func (inv *Inventory) sort() {
	slices.SortStableFunc(inv.Objects, func(a, b *Object) int {
		byName := 0
		if a.Kind != Trigger {
			byName = strings.Compare(a.Name, b.Name)
		}
		return cmp.Or(strings.Compare(a.Schema, b.Schema), cmp.Compare(slices.Index(kindOrder, a.Kind), slices.Index(kindOrder, b.Kind)), byName)
	})
}

// Changed lists what another inventory of the same selection, taken later, has in place of this one: objects that came or went, and
// definitions that differ. Tables are compared by their names alone.
func (inv *Inventory) Changed(later *Inventory) (texts []string) {
	type key struct {
		kind         Kind
		schema, name string
	}
	before := make(map[key]*Object)
	for _, o := range inv.Objects {
		if o.Kind == Account { // compared by package accounts
			continue
		}
		before[key{o.Kind, o.Schema, o.Name}] = o
	}
	for _, o := range later.Objects {
		if o.Name == binlog.HeartbeatTable {
			continue
		}
		k := key{o.Kind, o.Schema, o.Name}
		was := before[k]
		delete(before, k)
		switch {
		case was == nil:
			texts = append(texts, o.String()+" was created")
		case o.Kind != Sequence && (was.Definition != o.Definition || was.Context != o.Context) || o.Kind == Schema && was.Collation != o.Collation:
			texts = append(texts, o.String()+" was altered")
		}
	}
	for _, o := range inv.Objects {
		if before[key{o.Kind, o.Schema, o.Name}] != nil && o.Name != binlog.HeartbeatTable {
			texts = append(texts, o.String()+" was dropped")
		}
	}
	return texts
}
