package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/copier/inventory"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/visible"
)

// resolveSchemas finds the tables and objects that schemas and patterns name, prints them, and completes the options by them.
func resolveSchemas(ctx context.Context, c *config.Copy, o *copier.Options, once copyFlags, stdout, stderr io.Writer) error {
	inv, err := copier.Resolve(ctx, o, c.Selection)
	if inv != nil {
		w := stderr
		if once.dryRun || once.json {
			w = stdout
		}
		if err := printInventory(w, inv, once.json); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	c.Tables = o.Tables
	if err := c.Clauses(o.Tables); err != nil {
		return &usageError{err: err, try: "tare copy --help"}
	}
	o.Control, err = copyControl(c)
	return err
}

// shownObjects is how many names a line lists.
const shownObjects = 20

// printInventory prints what becomes of each object: a line per schema and kind for those that are copied as they are, one per object for
// others.
func printInventory(w io.Writer, inv *inventory.Inventory, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Event string `json:"event"`
			*inventory.Inventory
		}{"inventory", inv})
	}
	var b strings.Builder
	for i := 0; i < len(inv.Objects); {
		first := inv.Objects[i]
		end := i + 1
		for end < len(inv.Objects) && inv.Objects[end].Schema == first.Schema && inv.Objects[end].Kind == first.Kind {
			end++
		}
		printKind(&b, inv.Objects[i:end])
		i = end
	}
	fmt.Fprintf(&b, "inventory: %s copied, %d left out, %d in need of a hand\n", quantity.Of(inv.Count(inventory.Copied), "object"), inv.Count(inventory.LeftOut), inv.Count(inventory.NeedsHand))
	_, err := io.WriteString(w, b.String())
	return err
}

// printKind prints the objects of one schema and kind.
func printKind(b *strings.Builder, all []*inventory.Object) {
	first := all[0]
	var names []string
	for _, o := range all {
		if o.Fate == inventory.Copied && o.Kind != inventory.Schema {
			names = append(names, objectName(o))
		}
	}
	if n := len(names); n > 0 {
		more := ""
		if n > shownObjects {
			names, more = names[:shownObjects], fmt.Sprintf(" and %d more", n-shownObjects)
		}
		fmt.Fprintf(b, "copied: %s of %s: %s%s\n", quantity.Of(n, string(first.Kind)), visible.Line(first.Schema), strings.Join(names, ", "), more)
	}
	for _, o := range all {
		switch {
		case o.Fate == inventory.Copied && o.Kind == inventory.Schema:
			fmt.Fprintf(b, "copied: schema %s, default collation %s\n", visible.Line(o.Schema), o.Collation)
		case o.Fate == inventory.Copied && o.Note == "":
		case o.Fate == inventory.Copied:
			fmt.Fprintf(b, "copied: %s %s: %s\n", o.Kind, objectName(o), o.Note)
		default:
			fmt.Fprintf(b, "%s: %s %s: %s\n", o.Fate, o.Kind, objectName(o), o.Why)
		}
	}
}

func objectName(o *inventory.Object) string {
	name := o.FullName()
	switch {
	case slices.Contains([]inventory.Kind{inventory.Schema, inventory.Grantee}, o.Kind):
		name = o.Name
	case o.Name == "":
		name = "of " + o.Schema
	case o.Table != "":
		name += " on " + o.Table
	}
	return visible.Line(name)
}
