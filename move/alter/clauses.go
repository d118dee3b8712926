package alter

import (
	"errors"
	"fmt"
	"strings"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A Statement is a parsed ALTER TABLE.
type Statement struct {
	Schema, Table string
	Text          string // the clauses, as they were given
	Clauses       []Clause

	renamed map[string]string // new names of columns to old ones, both in lower case
	added   map[string]bool   // names of added columns, in lower case
	dropped map[string]bool   // likewise
}

// A Clause is one part of an ALTER TABLE.
type Clause struct {
	Text string

	named      bool   // it names a constraint, which the probe has under another name or not at all
	index      bool   // it builds an index
	checked    bool   // it adds a foreign key, for which the server copies the table
	refused    string // why no way is known for it; empty: none
	notByCopy  string // why the copy does not support it; empty: it does
	partitions bool   // it starts with PARTITION BY or REMOVE PARTITIONING, before which no comma stands
}

// quotedName returns the name of the table for statements.
func (s *Statement) quotedName() string {
	return session.Ident(s.Schema) + "." + session.Ident(s.Table)
}

// fullName returns the name of the table for messages.
func (s *Statement) fullName() string { return s.Schema + "." + s.Table }

// Parse parses the clauses of an ALTER TABLE. It returns an error for anything that it cannot parse, and for clauses that no way is
// known for.
func Parse(schema, table, text string) (*Statement, error) {
	text = strings.TrimSpace(strings.TrimRight(strings.TrimSpace(text), ";"))
	if text == "" {
		return nil, errors.New("the ALTER TABLE has no clauses; give them as one argument, such as 'ADD COLUMN note VARCHAR(200)'")
	}
	parser, err := sqlparser.New(sqlparser.Options{})
	if err != nil {
		return nil, fmt.Errorf("prepare the SQL parser: %w", err)
	}
	s := &Statement{
		Schema: schema, Table: table, Text: text,
		renamed: make(map[string]string), added: make(map[string]bool), dropped: make(map[string]bool),
	}
	pieces, err := split(text)
	if err != nil {
		return nil, err
	}
	if _, err := s.parse(parser, text); err != nil {
		return nil, err
	}
	for _, piece := range pieces {
		tree, err := s.parse(parser, piece)
		if err != nil {
			return nil, err
		}
		c, err := s.read(tree, piece)
		if err != nil {
			return nil, fmt.Errorf("clause %q: %w", piece, err)
		}
		if c.refused != "" {
			return nil, fmt.Errorf("clause %q: %s", piece, c.refused)
		}
		s.Clauses = append(s.Clauses, c)
	}
	return s, nil
}

// parse parses clauses as an ALTER of the table.
func (s *Statement) parse(parser *sqlparser.Parser, text string) (*sqlparser.AlterTable, error) {
	tree, err := parser.ParseStrictDDL("ALTER TABLE " + s.quotedName() + " " + text)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w; give the clauses alone, as they follow ALTER TABLE and the table's name", text, err)
	}
	alter, ok := tree.(*sqlparser.AlterTable)
	if !ok || !alter.FullyParsed {
		return nil, fmt.Errorf("parse %q: it is not a list of clauses of ALTER TABLE that is known in full", text)
	}
	return alter, nil
}

// split splits clauses at the commas outside of parentheses and quotes. Comments are refused: servers execute some of them.
func split(text string) (pieces []string, err error) {
	var l sqldigest.Lexer
	l.Reset([]byte(text), 0)
	for t := l.Next(); t.Kind != sqldigest.KindEOF; t = l.Next() {
		switch t.Kind {
		case sqldigest.KindComment, sqldigest.KindExecOpen:
			return nil, fmt.Errorf("parse %q: comments are not supported", text)
		case sqldigest.KindString, sqldigest.KindQuotedIdent:
			if strings.IndexByte("`'\"", text[t.End-1]) < 0 {
				return nil, fmt.Errorf("parse %q: a quote is not closed", text)
			}
		case sqldigest.KindOperator:
			if text[t.Start:t.End] == ";" {
				return nil, fmt.Errorf("parse %q: it has more than one statement", text)
			}
		}
	}
	pieces, _ = sqldigest.List(text, 0) // the parser refuses parentheses that do not match
	for i := range pieces {
		pieces[i] = strings.TrimSpace(pieces[i])
	}
	return pieces, nil
}

// read finds out what a clause does.
func (s *Statement) read(tree *sqlparser.AlterTable, text string) (c Clause, err error) {
	c.Text = text
	if p := tree.PartitionSpec; p != nil {
		if p.Action != sqlparser.RemoveAction {
			c.refused = "partitions are managed by the server without a copy of the table: execute this ALTER TABLE yourself"
			return c, nil
		}
		c.partitions = len(tree.AlterOptions) == 0
	}
	if tree.PartitionOption != nil {
		c.partitions = len(tree.AlterOptions) == 0
	}
	if len(tree.AlterOptions) == 0 && !c.partitions {
		return c, errors.New("it changes nothing")
	}
	for _, option := range tree.AlterOptions {
		if err := s.option(&c, option); err != nil {
			return c, err
		}
	}
	return c, nil
}

// option adds what one option of a clause does.
func (s *Statement) option(c *Clause, option sqlparser.AlterOption) error {
	switch o := option.(type) {
	case *sqlparser.AddColumns:
		for _, column := range o.Columns {
			s.added[column.Name.Lowered()] = true
			c.index = c.index || column.Type.Options != nil && column.Type.Options.KeyOpt != sqlparser.ColKeyNone
			c.column(column)
		}
	case *sqlparser.DropColumn:
		s.dropped[o.Name.Name.Lowered()] = true
	case *sqlparser.ChangeColumn:
		s.rename(o.OldColumn.Name.Lowered(), o.NewColDefinition.Name.Lowered())
		c.column(o.NewColDefinition)
	case *sqlparser.ModifyColumn:
		c.column(o.NewColDefinition)
	case *sqlparser.RenameColumn:
		s.rename(o.OldName.Name.Lowered(), o.NewName.Name.Lowered())
	case *sqlparser.AddIndexDefinition:
		c.index = true
	case *sqlparser.AddConstraintDefinition:
		if _, ok := o.ConstraintDefinition.Details.(*sqlparser.ForeignKeyDefinition); ok {
			c.foreignKey()
		}
	case *sqlparser.DropKey:
		switch o.Type {
		case sqlparser.ForeignKeyType, sqlparser.ConstraintType, sqlparser.CheckKeyType:
			c.named, c.notByCopy = true, "it names a constraint, and those of the shadow table have other names"
		}
	case *sqlparser.AlterCheck:
		c.named, c.notByCopy = true, "it names a constraint, and those of the shadow table have other names"
	case *sqlparser.RenameTableName:
		c.refused = "the table would get another name: execute RENAME TABLE separately"
	case sqlparser.AlgorithmValue, *sqlparser.LockOption:
		c.refused = "the algorithm and the lock are chosen by tare alter: leave it out, or use option always-copy or option never-copy"
	case *sqlparser.TablespaceOperation, *sqlparser.Validation, *sqlparser.KeyState, *sqlparser.OrderByOption:
		c.refused = "it changes no definition: execute this ALTER TABLE yourself"
	case *sqlparser.AlterColumn, *sqlparser.AlterIndex, *sqlparser.AlterCharset, *sqlparser.RenameIndex,
		*sqlparser.Force, sqlparser.TableOptions:
	default:
		return fmt.Errorf("%T is not supported", option)
	}
	return nil
}

// foreignKeys is the reason why servers copy a table to add a foreign key.
const foreignKeys = "the server checks all rows for the foreign key, for which it copies the table"

// foreignKey marks the clause as one that adds a foreign key.
func (c *Clause) foreignKey() {
	c.checked, c.notByCopy = true, "a copy writes rows without checks of foreign keys, so that rows without a parent would not be found"
}

// column marks the clause if the definition of a column adds a foreign key.
func (c *Clause) column(column *sqlparser.ColumnDefinition) {
	if o := column.Type.Options; o != nil && o.Reference != nil {
		c.foreignKey()
	}
}

func (s *Statement) rename(from, to string) {
	if from != to {
		s.renamed[to] = from
	}
}

// origin returns the name of the column that a column of the new definition comes from, and false if it is added. Both are in lower case.
func (s *Statement) origin(column string) (string, bool) {
	if from, ok := s.renamed[column]; ok {
		return from, true
	}
	return column, !s.added[column]
}

// alters returns the ALTER TABLE of clauses with an algorithm.
func alters(table string, clauses []Clause, algorithm string) string {
	if len(clauses) == 0 {
		panic("BUG: an ALTER TABLE without clauses")
	}
	var b strings.Builder
	b.WriteString("ALTER TABLE " + table + " " + algorithm)
	for i := range clauses {
		if (i > 0 || algorithm != "") && !clauses[i].partitions {
			b.WriteByte(',')
		}
		b.WriteString(" " + clauses[i].Text)
	}
	return b.String()
}
