package sqlplan

import (
	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/mysql/sqldigest"
)

// An Access is the kind of access to a table.
type Access uint8

const (
	// AccessRead : rows are read.
	AccessRead Access = 1 << iota
	// AccessWrite : rows or the definition are changed, or the table is locked.
	AccessWrite
)

// String returns "read", "write" or "read+write".
func (a Access) String() string {
	switch a {
	case AccessRead:
		return "read"
	case AccessWrite:
		return "write"
	case AccessRead | AccessWrite:
		return "read+write"
	}
	return "none"
}

// A tableSet collects the tables of one statement, each once, in order of appearance.
type tableSet struct {
	schema string // for unqualified names
	list   []tableRef
	index  map[tableKey]int

	unknownCall bool // a function that is not built in is called
	server      sqldigest.Server
	charset     sqldigest.Charset // of the names in the text
}

// A tableKey distinguishes the tables: a default schema is not the same as an equal name in the text.
type tableKey struct {
	schema, name string
	unsure       bool
}

type tableRef struct {
	schema, name string // name "" represents the whole schema
	access       Access

	// The server may have read another name than the text has: see plain. The session's default schema is known.
	unsureSchema, unsureName bool
}

func (s *tableSet) add(schema, name string, access Access) {
	unsure := schema != "" && !plain(schema, s.charset)
	if schema == "" {
		schema = s.schema
	}
	k := tableKey{schema, name, unsure}
	if i, ok := s.index[k]; ok {
		s.list[i].access |= access
		return
	}
	if s.index == nil {
		s.index = make(map[tableKey]int)
	}
	s.index[k] = len(s.list)
	s.list = append(s.list, tableRef{
		schema: schema, name: name, access: access, unsureSchema: unsure, unsureName: !plain(name, s.charset),
	})
}

func (s *tableSet) addName(t sqlparser.TableName, access Access) {
	if t.Name.IsEmpty() {
		return
	}
	s.add(t.Qualifier.String(), t.Name.String(), access)
}

// A cteScope is a list of the visible common table expressions.
type cteScope struct {
	name  string
	outer *cteScope
}

// hides reports whether the name refers to a common table expression instead of a table.
func (c *cteScope) hides(t sqlparser.TableName) bool {
	if !t.Qualifier.IsEmpty() {
		return false
	}
	for ; c != nil; c = c.outer {
		if c.name == t.Name.String() {
			return true
		}
	}
	return false
}

// collect adds the tables of a statement and reports whether it supports statements of this kind completely.
func (s *tableSet) collect(stmt sqlparser.Statement) bool {
	switch n := stmt.(type) {
	case *sqlparser.Select, *sqlparser.Union, *sqlparser.ValuesStatement,
		*sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete, *sqlparser.Set:
		s.walk(n, nil)
	case *sqlparser.CreateTable:
		s.addName(n.Table, AccessWrite)
		if n.OptLike != nil {
			s.addName(n.OptLike.LikeTable, AccessRead)
		}
		if n.TableSpec != nil {
			s.options(n.Table, n.TableSpec.Options)
		}
		s.walk(n, nil)
	case *sqlparser.AlterTable:
		s.alterTable(n)
	case *sqlparser.CreateView:
		s.addName(n.ViewName, AccessWrite)
		s.walk(n, nil)
	case *sqlparser.AlterView:
		s.addName(n.ViewName, AccessWrite)
		s.walk(n, nil)
	case *sqlparser.DropTable, *sqlparser.DropView, *sqlparser.RenameTable, *sqlparser.TruncateTable:
		for _, t := range n.(sqlparser.DDLStatement).AffectedTables() {
			s.addName(t, AccessWrite)
		}
	case sqlparser.DBDDLStatement:
		if n.GetDatabaseName() == "" && s.schema == "" {
			return false
		}
		s.add(n.GetDatabaseName(), "", AccessWrite)
	case *sqlparser.ExplainTab:
		s.addName(n.Table, AccessRead)
	case *sqlparser.ExplainStmt:
		return s.collect(n.Statement)
	case *sqlparser.Analyze:
		s.addName(n.Table, AccessWrite)
	case *sqlparser.LockTables:
		for _, t := range n.Tables {
			s.lockTable(t)
		}
	case *sqlparser.Flush:
		for _, t := range n.TableNames {
			s.addName(t, AccessWrite)
		}
	case *sqlparser.Show:
		s.show(n)
	case *sqlparser.Begin, *sqlparser.Commit, *sqlparser.Rollback, *sqlparser.SRollback, *sqlparser.Savepoint,
		*sqlparser.Release, *sqlparser.UnlockTables, *sqlparser.Use, *sqlparser.DeallocateStmt, *sqlparser.Kill:
		// They name no table.
	case *sqlparser.CallProc:
		s.walk(n, nil)
	default:
		return false
	}
	return true
}

func (s *tableSet) alterTable(n *sqlparser.AlterTable) {
	for _, t := range n.AffectedTables() {
		s.addName(t, AccessWrite)
	}
	if n.PartitionSpec != nil {
		s.addName(n.PartitionSpec.TableName, AccessWrite)
	}
	for _, o := range n.AlterOptions {
		switch o := o.(type) {
		case sqlparser.TableOptions:
			s.options(n.Table, o)
		case *sqlparser.RenameTableName:
			s.relative(n.Table, o.Table, AccessWrite)
		}
	}
	s.walk(n, nil)
}

// options adds the tables that a definition combines, as in MERGE's UNION=(a, b): the new table gives access
// to them for reading and writing.
func (s *tableSet) options(target sqlparser.TableName, options sqlparser.TableOptions) {
	for _, o := range options {
		for _, t := range o.Tables {
			s.relative(target, t, AccessRead|AccessWrite)
		}
	}
}

func (s *tableSet) show(n *sqlparser.Show) {
	switch in := n.Internal.(type) {
	case *sqlparser.ShowBasic:
		if !in.Tbl.Name.IsEmpty() {
			schema := in.Tbl.Qualifier.String()
			if in.DbName.NotEmpty() {
				schema = in.DbName.String() // SHOW COLUMNS FROM t FROM db
			}
			s.add(schema, in.Tbl.Name.String(), AccessRead)
		}
	case *sqlparser.ShowCreate:
		s.addName(in.Op, AccessRead)
	}
	s.walk(n, nil)
}

func (s *tableSet) lockTable(t *sqlparser.TableAndLockType) {
	access := AccessRead
	if t.Lock == sqlparser.Write || t.Lock == sqlparser.LowPriorityWrite {
		access = AccessWrite
	}
	if a, ok := t.Table.(*sqlparser.AliasedTableExpr); ok {
		if name, ok := a.Expr.(sqlparser.TableName); ok {
			s.addName(name, access)
		}
	}
}

// walk adds every table below n as read, and those that a DML statement changes as written. Names defined by
// an enclosing WITH are not tables.
func (s *tableSet) walk(n sqlparser.SQLNode, ctes *cteScope) {
	if n == nil {
		return
	}
	err := sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if with := takeWith(n); with != nil {
			s.walk(n, s.with(with, ctes))
			return false, nil
		}
		switch n := n.(type) {
		case *sqlparser.Insert:
			s.insert(n, ctes)
			return false, nil
		case *sqlparser.Update:
			s.updateTargets(n, ctes)
		case *sqlparser.Delete:
			s.deleteTargets(n, ctes)
		case *sqlparser.AliasedTableExpr:
			if t, ok := n.Expr.(sqlparser.TableName); ok {
				s.read(t, ctes)
			}
		case *sqlparser.FuncExpr:
			if !n.Qualifier.IsEmpty() || !builtinOn(n.Name.Lowered(), s.server) {
				s.unknownCall = true
			}
		}
		return true, nil
	}, n)
	if err != nil {
		panic("BUG: a visitor that returns no error returned " + err.Error())
	}
}

// takeWith removes and returns the WITH clause of a node, so that the node can be walked again with the
// clause's names in scope.
func takeWith(n sqlparser.SQLNode) (with *sqlparser.With) {
	switch n := n.(type) {
	case *sqlparser.Select:
		with, n.With = n.With, nil
	case *sqlparser.Union:
		with, n.With = n.With, nil
	case *sqlparser.ValuesStatement:
		with, n.With = n.With, nil
	case *sqlparser.Update:
		with, n.With = n.With, nil
	case *sqlparser.Delete:
		with, n.With = n.With, nil
	}
	return with
}

// with walks the expressions of a WITH clause, each with the preceding ones in scope (and itself if they are
// recursive), and returns the resulting scope.
func (s *tableSet) with(w *sqlparser.With, ctes *cteScope) *cteScope {
	for _, cte := range w.CTEs {
		own := &cteScope{name: cte.ID.String(), outer: ctes}
		if w.Recursive {
			s.walk(cte.Subquery, own)
		} else {
			s.walk(cte.Subquery, ctes)
		}
		ctes = own
	}
	return ctes
}

func (s *tableSet) read(t sqlparser.TableName, ctes *cteScope) {
	if !ctes.hides(t) && !(t.Qualifier.IsEmpty() && t.Name.String() == "dual") {
		s.addName(t, AccessRead)
	}
}

func (s *tableSet) insert(n *sqlparser.Insert, ctes *cteScope) {
	if t, ok := n.Table.Expr.(sqlparser.TableName); ok {
		s.addName(t, AccessWrite)
	}
	s.walk(n.Rows, ctes)
	s.walk(n.OnDup, ctes)
}

// updateTargets adds the tables that an UPDATE changes: those that qualify columns in its SET list, and all
// of its tables if a column there is unqualified.
func (s *tableSet) updateTargets(n *sqlparser.Update, ctes *cteScope) {
	var from fromList
	from.addAll(n.TableExprs, ctes)
	for _, e := range n.Exprs {
		q := e.Name.Qualifier
		if t, ok := from.lookup(q); ok && !q.Name.IsEmpty() {
			s.addName(t, AccessWrite)
			continue
		}
		for _, f := range from {
			s.addName(f.table, AccessWrite)
		}
	}
}

func (s *tableSet) deleteTargets(n *sqlparser.Delete, ctes *cteScope) {
	var from fromList
	from.addAll(n.TableExprs, ctes)
	if len(n.Targets) == 0 {
		for _, f := range from {
			s.addName(f.table, AccessWrite)
		}
		return
	}
	for _, target := range n.Targets {
		t, ok := from.lookup(target)
		if !ok {
			t = target
			for _, f := range from { // the server may compare aliases differently
				s.addName(f.table, AccessWrite)
			}
		}
		s.addName(t, AccessWrite)
	}
}

// A fromList is the tables of a FROM clause with their aliases; it excludes derived tables and common table
// expressions, which cannot be written.
type fromList []aliasedTable

type aliasedTable struct {
	alias string
	table sqlparser.TableName
}

func (l *fromList) addAll(exprs []sqlparser.TableExpr, ctes *cteScope) {
	for _, e := range exprs {
		l.add(e, ctes)
	}
}

func (l *fromList) add(e sqlparser.TableExpr, ctes *cteScope) {
	switch e := e.(type) {
	case *sqlparser.AliasedTableExpr:
		if t, ok := e.Expr.(sqlparser.TableName); ok && !ctes.hides(t) {
			*l = append(*l, aliasedTable{alias: e.As.String(), table: t})
		}
	case *sqlparser.JoinTableExpr:
		l.add(e.LeftExpr, ctes)
		l.add(e.RightExpr, ctes)
	case *sqlparser.ParenTableExpr:
		l.addAll(e.Exprs, ctes)
	}
}

// lookup finds the table that a qualifier or DELETE target refers to: an alias, or a table's name.
func (l fromList) lookup(name sqlparser.TableName) (sqlparser.TableName, bool) {
	for _, f := range l {
		switch {
		case f.alias != "" && name.Qualifier.IsEmpty() && f.alias == name.Name.String():
			return f.table, true
		case f.alias == "" && f.table.Name.String() == name.Name.String() &&
			(name.Qualifier.IsEmpty() || f.table.Qualifier.IsEmpty() || name.Qualifier.String() == f.table.Qualifier.String()):
			return f.table, true
		}
	}
	return sqlparser.TableName{}, false
}
