package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
)

// kindList lists the kinds of objects that --objects may name: their plurals.
func kindList() string {
	kinds := inventory.Carried()
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k) + "s"
	}
	return strings.Join(names, ", ")
}

// validateSelection reads the tables, schemas and patterns to copy.
func (c *Copy) validateSelection() (errs []error) {
	c.Copy.Tables, c.Selection, c.Copy.Collations = nil, inventory.Selection{}, nil
	errs = append(errs, c.validateTables()...)
	for _, text := range splitLists(c.schemas) {
		switch {
		case text == "" || strings.ContainsAny(text, "*?"):
			errs = append(errs, fmt.Errorf("--schema %q: want the name of a schema; patterns are for --tables", text))
		case slices.Contains(c.Selection.Schemas, text):
			errs = append(errs, fmt.Errorf("--schema names %s twice", text))
		default:
			c.Selection.Schemas = append(c.Selection.Schemas, text)
		}
	}
	for _, text := range splitLists(c.excludes) {
		p, err := inventory.ParsePattern(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--exclude: %w", err))
		}
		c.Selection.Exclude = append(c.Selection.Exclude, p)
	}
	c.Selection.Users, c.Selection.ExcludeUsers, c.Selection.GrantExisting = c.users, splitLists(c.excludedUsers), splitLists(c.existingUsers)
	errs = append(errs, c.validateObjects()...)
	errs = append(errs, c.validateCollations()...)
	return append(errs, c.validateWhole()...)
}

// validateTables reads the tables and the patterns of tables to copy.
func (c *Copy) validateTables() (errs []error) {
	var named []string
	for text := range strings.SplitSeq(c.tables, ",") {
		text = strings.TrimSpace(text)
		if !inventory.IsPattern(text) {
			if text != "" || c.tables != "" {
				named = append(named, text)
			}
			continue
		}
		p, err := inventory.ParsePattern(text)
		if err != nil || strings.Contains(text, "=") {
			errs = append(errs, fmt.Errorf("--tables: pattern %q is not of the form schema.name, such as shop.* or sm.ord_*; tables by patterns keep their names", text))
			continue
		}
		c.Selection.Tables = append(c.Selection.Tables, p)
	}
	if len(named) > 0 {
		var err error
		if c.Copy.Tables, err = tabledef.ParseTables(strings.Join(named, ",")); err != nil {
			errs = append(errs, fmt.Errorf("--tables: %w", err))
		}
	}
	return errs
}

// validateCollations reads the collations that the target has under other names.
func (c *Copy) validateCollations() (errs []error) {
	for _, text := range c.collations {
		from, to, ok := strings.Cut(text, "=")
		if from, to = strings.TrimSpace(from), strings.TrimSpace(to); !ok || !collationName(from) || !collationName(to) {
			errs = append(errs, fmt.Errorf("--map-collation %q is not of the form collation=other", text))
			continue
		}
		if c.Copy.Collations == nil {
			c.Copy.Collations = make(map[string]string)
		}
		if c.Copy.Collations[from] != "" {
			errs = append(errs, fmt.Errorf("--map-collation names %s twice", from))
		}
		c.Copy.Collations[from] = to
	}
	return errs
}

// validateObjects reads the kinds of objects to copy.
func (c *Copy) validateObjects() (errs []error) {
	switch c.objects {
	case "all":
		return nil
	case "none":
		c.Selection.Kinds = []inventory.Kind{}
		return nil
	}
	for name := range strings.SplitSeq(c.objects, ",") {
		k := inventory.Kind(strings.TrimSuffix(strings.TrimSpace(name), "s"))
		if !slices.Contains(inventory.Carried(), k) || !strings.HasSuffix(strings.TrimSpace(name), "s") {
			errs = append(errs, fmt.Errorf("--objects: want all, none, or of %s, not %q", kindList(), name))
			continue
		}
		c.Selection.Kinds = append(c.Selection.Kinds, k)
	}
	return errs
}

// validateWhole reports options that do not go together with whole schemas, or require them.
func (c *Copy) validateWhole() (errs []error) {
	if len(c.Selection.Schemas) == 0 && c.users {
		errs = append(errs, errors.New("--users requires --schema: the accounts with privileges on whole schemas are copied"))
	}
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"--exclude-users", c.Selection.ExcludeUsers}, {"--grant-existing", c.Selection.GrantExisting}} {
		if slices.Contains(list.patterns, "") {
			errs = append(errs, errors.New(list.name+" has an empty pattern: want names of users, or user@host"))
		}
	}
	if !c.Selection.Empty() && c.From.Tare != "" {
		errs = append(errs, errors.New("--schema and patterns in --tables need --from mysql://: tare rowstream lists no objects; name each table"))
	}
	for i := range c.Copy.Tables {
		t := &c.Copy.Tables[i]
		if slices.Contains(c.Selection.Schemas, t.Schema) && t.ToName != "" {
			errs = append(errs, fmt.Errorf("--tables %s.%s=…: --schema %s copies its tables under their names, since views, routines and triggers refer to them by name", t.Schema, t.Name, t.Schema))
		}
	}
	return errs
}

// collationName reports whether a text may be the name of a collation.
func collationName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// splitLists splits texts at their commas.
func splitLists(texts []string) (all []string) {
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			all = append(all, strings.TrimSpace(part))
		}
	}
	return all
}
