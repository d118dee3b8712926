package copier

import (
	"context"
	"fmt"
	"slices"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// notCopiedQueries select the kind and name of the objects of a schema other than tables, as far as the
// account may see them.
var notCopiedQueries = []string{
	"SELECT 'view', TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = %s ORDER BY 2",
	"SELECT LOWER(ROUTINE_TYPE), ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = %s ORDER BY 1, 2",
	"SELECT 'event', EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = %s ORDER BY 2",
	"SELECT 'grantee', GRANTEE FROM information_schema.SCHEMA_PRIVILEGES WHERE TABLE_SCHEMA = %[1]s" +
		" UNION SELECT 'grantee', GRANTEE FROM information_schema.TABLE_PRIVILEGES WHERE TABLE_SCHEMA = %[1]s ORDER BY 2",
}

// findNotCopied returns the objects that the copy does not include. A source that is read through tare
// rowstream exposes only triggers.
func (s *schemaObjects) findNotCopied(ctx context.Context) (all []telemetry.NotCopied, err error) {
	add := func(kind, schema, name string) {
		i := slices.IndexFunc(all, func(n telemetry.NotCopied) bool { return n.Kind == kind && n.Schema == schema })
		if i < 0 {
			all = append(all, telemetry.NotCopied{Kind: kind, Schema: schema})
			i = len(all) - 1
		}
		all[i].Names = append(all[i].Names, name)
	}
	targets := make(map[string]string) // schemas of the source, with the target schema of their first table
	var schemas []string
	for _, t := range s.tables {
		for _, name := range t.Source.Triggers {
			add("trigger", t.Spec.Schema, name+" on "+t.Spec.Name)
		}
		if targets[t.Spec.Schema] == "" {
			targets[t.Spec.Schema] = t.Spec.ToSchema
			schemas = append(schemas, t.Spec.Schema)
		}
	}
	source, ok := s.from.(session.Querier)
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
		text, err := s.schemaDefault(ctx, source, schema, targets[schema])
		if err != nil {
			return nil, fmt.Errorf("compare the default collations of schemas %s and %s: %w", schema, targets[schema], err)
		}
		if text != "" {
			add("schema default", schema, text)
		}
	}
	return all, nil
}

// schemaText returns a name as a literal that can be compared with names in information_schema.
func schemaText(s string) string { return fmt.Sprintf("_utf8mb4 x'%x'", s) }

// schemaDefault describes how the default collations of two schemas differ; empty if they do not.
func (s *schemaObjects) schemaDefault(ctx context.Context, source session.Querier, from, to string) (string, error) {
	const query = "SELECT COALESCE((SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s), @@collation_server)"
	here := ""
	if err := source.Query(ctx, fmt.Sprintf(query, schemaText(from)), func(row mysqlwire.TextRow) error {
		here = string(row[0])
		return nil
	}); err != nil {
		return "", err
	}
	there, err := session.QueryValue(ctx, s.to, fmt.Sprintf(query, schemaText(to)))
	if err != nil || here == there {
		return "", err
	}
	return fmt.Sprintf("collation %s, in the target %s", here, there), nil
}

// listNotCopied reports, before the copy starts, the objects that it does not include.
func (s *schemaObjects) listNotCopied(ctx context.Context) (err error) {
	if s.o.Swap != nil { // the target is in the same schema
		return nil
	}
	if s.o.Objects != nil {
		s.notCopied = s.o.Objects.NotCopied()
	} else if s.notCopied, err = s.findNotCopied(ctx); err != nil {
		return err
	}
	for i := range s.notCopied {
		s.o.Observe(telemetry.Event{Kind: telemetry.EventNotCopied, NotCopied: &s.notCopied[i], Text: s.notCopied[i].String()})
	}
	return nil
}
