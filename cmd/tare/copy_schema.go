package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/move/copier"
)

// resolveSchemas finds the tables and objects that schemas and patterns name, prints them, and completes the options by them.
func resolveSchemas(ctx context.Context, c *config.Copy, o *copier.Options, once copyFlags, stdout, stderr io.Writer) error {
	inv, err := copier.Resolve(ctx, o, c.Selection)
	if err := resolved(c, o, inv, err, once, stdout, stderr); err != nil {
		return err
	}
	o.Control, err = copyControl(c)
	return err
}

// resolved prints the inventory of schemas and patterns, and adds the clauses about single tables.
func resolved(c *config.Copy, o *copier.Options, inv *inventory.Inventory, err error, once copyFlags, stdout, stderr io.Writer) error {
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
	c.Copy.Tables = o.Tables
	if err := c.Clauses(o.Tables); err != nil {
		return &usageError{err: err, try: "tare copy --help"}
	}
	return nil
}

// runDump writes a dump, or prints the plan of one.
func runDump(ctx context.Context, c *config.Copy, o copier.Options, once copyFlags, log *slog.Logger, stdout, stderr io.Writer) error {
	if len(once.truncate) > 0 {
		return &usageError{err: errors.New("--truncate has no effect on a dump: no table is emptied"), try: "tare copy --help"}
	}
	selected := !c.Selection.Empty()
	inv, err := copier.ResolveDump(ctx, &o, c.Selection)
	if selected {
		err = resolved(c, &o, inv, err, once, stdout, stderr)
	}
	if err != nil {
		return err
	}
	if !once.dryRun {
		if err := c.To.Dump.Create(); err != nil {
			return err
		}
	}
	to, err := openDump(c.To.Dump, c.Copy.Patience)
	if once.dryRun && errors.Is(err, fs.ErrNotExist) { // its directory will be created
		to.Bucket, err = objstore.NewInMemBucket(), nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = to.Bucket.Close() }() // its files are flushed
	if once.dryRun {
		planned, err := copier.PlanDump(ctx, o, to)
		if err != nil {
			return err
		}
		return printPlan(stdout, planned, once.json)
	}
	gateway, err := copyGateway(c)
	if err != nil {
		return err
	}
	pages := copyPages{status: o.Metrics.Status, metrics: []*copier.Metrics{o.Metrics}}
	end, err := pages.serve(ctx, newCopyServer("copy", c.HTTPAccess, o.Metrics, log), gateway, c.Throttle.Limits.MaxP99)
	if err != nil {
		return err
	}
	defer end()
	screen := pages.recent.of(newCopyScreen(c.Copy.Tables, once.json, stdout, stderr))
	o.Observe = screen.observe
	report, err := copier.Dump(ctx, o, to)
	screen.close()
	if err != nil {
		return copyError(ctx, err)
	}
	return printDumpReport(stdout, to.Name, report, once.json)
}

// openDump opens the directory or bucket of a dump.
func openDump(u bucketurl.URL, patience time.Duration) (dump.Destination, error) {
	bucket, err := u.Open()
	return dump.Destination{Bucket: bucket, Name: u.String(), Dir: u.Local(), Patience: patience}, err
}

func printDumpReport(w io.Writer, to string, r *dump.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Event string `json:"event"`
			*dump.Report
		}{"report", r})
	}
	if err := printHeld(w, r.Throttle); err != nil {
		return err
	}
	var b strings.Builder
	for i := range r.NotCopied {
		visible.Fprintf(&b, "not copied: %s\n", &r.NotCopied[i])
	}
	for _, t := range r.Tables {
		visible.Fprintf(&b, "%s: dumped: %s in %s, %s in %s of %s", t.Source, quantity.Of(t.Rows, "row"), quantity.Of(t.Chunks, "chunk"),
			megabytes(t.Bytes), quantity.Of(t.Files, "file"), megabytes(t.Size))
		if t.Before > 0 {
			visible.Fprintf(&b, "; %s had been dumped before and have not changed", quantity.Of(t.Before, "chunk"))
		}
		b.WriteString("\n")
	}
	if r.Position != "" {
		visible.Fprintf(&b, "the source's binary log stood at %s\n", r.Position)
	}
	visible.Fprintf(&b, "the dump is complete: %s, SHA-256 of manifest.json %s\n", to, r.Manifest)
	_, err := io.WriteString(w, b.String())
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
	visible.Fprintf(&b, "inventory: %s copied, %d left out, %d in need of a hand\n", quantity.Of(inv.Count(inventory.Copied), "object"), inv.Count(inventory.LeftOut), inv.Count(inventory.NeedsHand))
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
			names, more = names[:shownObjects], visible.Sprintf(" and %d more", n-shownObjects)
		}
		of := ""
		if first.Schema != "" {
			of = " of " + visible.Line(first.Schema)
		}
		visible.Fprintf(b, "copied: %s%s: %s%s\n", quantity.Of(n, string(first.Kind)), of, strings.Join(names, ", "), more)
	}
	for _, o := range all {
		switch {
		case o.Fate == inventory.Copied && o.Kind == inventory.Schema:
			visible.Fprintf(b, "copied: schema %s, default collation %s\n", o.Schema, o.Collation)
		case o.Fate == inventory.Copied && o.Note == "":
		case o.Fate == inventory.Copied:
			visible.Fprintf(b, "copied: %s %s: %s\n", o.Kind, objectName(o), o.Note)
		default:
			visible.Fprintf(b, "%s: %s %s: %s\n", o.Fate, o.Kind, objectName(o), o.Why)
		}
	}
}

func objectName(o *inventory.Object) string {
	name := o.FullName()
	switch {
	case slices.Contains([]inventory.Kind{inventory.Schema, inventory.Grantee, inventory.Account}, o.Kind):
		name = o.Name
	case o.Name == "":
		name = "of " + o.Schema
	case o.Table != "":
		name += " on " + o.Table
	}
	return visible.Line(name)
}
