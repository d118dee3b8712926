package copier

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/mysqlwire"
)

// A NotCopied is a kind of objects of a schema of the source that a copy leaves behind.
type NotCopied struct {
	Kind   string   `json:"kind"` // trigger, view, procedure, function, event, grantee, schema default
	Schema string   `json:"schema"`
	Names  []string `json:"names"`
}

// shownNames is how many names a text lists.
const shownNames = 20

func (n *NotCopied) String() string {
	names := n.Names
	more := ""
	if len(names) > shownNames {
		names, more = names[:shownNames], fmt.Sprintf(" and %d more", len(names)-shownNames)
	}
	return n.Kind + " in " + n.Schema + ": " + strings.Join(names, ", ") + more
}

// notCopiedQueries select kind and name of what a schema has besides tables, as far as the account may see it.
var notCopiedQueries = []string{
	"SELECT 'view', TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = %s ORDER BY 2",
	"SELECT LOWER(ROUTINE_TYPE), ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = %s ORDER BY 1, 2",
	"SELECT 'event', EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = %s ORDER BY 2",
	"SELECT 'grantee', GRANTEE FROM information_schema.SCHEMA_PRIVILEGES WHERE TABLE_SCHEMA = %[1]s" +
		" UNION SELECT 'grantee', GRANTEE FROM information_schema.TABLE_PRIVILEGES WHERE TABLE_SCHEMA = %[1]s ORDER BY 2",
}

// findNotCopied lists what the copy leaves behind. A source that is read through tare rowstream shows triggers only.
func (r *run) findNotCopied(ctx context.Context) (all []NotCopied, err error) {
	add := func(kind, schema, name string) {
		i := slices.IndexFunc(all, func(n NotCopied) bool { return n.Kind == kind && n.Schema == schema })
		if i < 0 {
			all = append(all, NotCopied{Kind: kind, Schema: schema})
			i = len(all) - 1
		}
		all[i].Names = append(all[i].Names, name)
	}
	targets := make(map[string]string) // schemas of the source, and where their first table goes
	var schemas []string
	for _, t := range r.tables {
		for _, name := range t.source.Triggers {
			add("trigger", t.spec.Schema, name+" on "+t.spec.Name)
		}
		if targets[t.spec.Schema] == "" {
			targets[t.spec.Schema] = t.spec.ToSchema
			schemas = append(schemas, t.spec.Schema)
		}
	}
	source, ok := r.from.(querier)
	if !ok {
		return all, nil
	}
	for _, schema := range schemas {
		for _, q := range notCopiedQueries {
			if err := source.Query(ctx, fmt.Sprintf(q, schemaText(schema)), func(row mysqlwire.TextRow) error {
				add(string(row[0]), schema, string(row[1]))
				return nil
			}); err != nil {
				return nil, fmt.Errorf("list the objects of schema %s that are not copied: %w", schema, err)
			}
		}
		text, err := r.schemaDefault(ctx, source, schema, targets[schema])
		if err != nil {
			return nil, fmt.Errorf("compare the default collations of schemas %s and %s: %w", schema, targets[schema], err)
		}
		if text != "" {
			add("schema default", schema, text)
		}
	}
	return all, nil
}

// schemaText is a name as a literal that compares to those in information_schema.
func schemaText(s string) string { return fmt.Sprintf("_utf8mb4 x'%x'", s) }

// schemaDefault returns how the default collations of two schemas differ, empty if they do not.
func (r *run) schemaDefault(ctx context.Context, source querier, from, to string) (string, error) {
	const query = "SELECT COALESCE((SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s), @@collation_server)"
	here := ""
	if err := source.Query(ctx, fmt.Sprintf(query, schemaText(from)), func(row mysqlwire.TextRow) error {
		here = string(row[0])
		return nil
	}); err != nil {
		return "", err
	}
	there, err := queryValue(ctx, r.to, fmt.Sprintf(query, schemaText(to)))
	if err != nil || here == there {
		return "", err
	}
	return fmt.Sprintf("collation %s, in the target %s", here, there), nil
}

// listNotCopied reports what the copy leaves behind, before it starts.
func (r *run) listNotCopied(ctx context.Context) (err error) {
	if r.notCopied, err = r.findNotCopied(ctx); err != nil {
		return err
	}
	for i := range r.notCopied {
		r.o.Observe(Event{Kind: EventNotCopied, NotCopied: &r.notCopied[i], Text: r.notCopied[i].String()})
	}
	return nil
}

var _ querier = (*binlog.Direct)(nil)
