package binlog

import "github.com/taredb/tare/mysql/sqldigest"

func (p *sqlParser) create() statement {
	replaces := p.accept("OR", "REPLACE")
	temporary := p.accept("TEMPORARY")
	switch start := p.pos; {
	case p.accept("TABLE"):
		return p.createTable(replaces, temporary)
	case p.acceptAny("DATABASE", "SCHEMA"):
		p.ifExists()
		table, ok := p.followedSchema()
		switch {
		case !ok:
			return unknownSQL
		case replaces:
			return schemaChangeOf(table, ChangeOther)
		}
		return harmless
	case p.accept("SEQUENCE"):
		p.ifExists()
		table, ok := p.name()
		if !ok || table >= 0 {
			return unknownSQL
		}
		return harmless
	case p.acceptAny("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "INDEX"):
		for p.acceptAny("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "INDEX") {
		}
		if p.at(-1).is("INDEX") {
			return p.onTable()
		}
		p.pos = start
	}
	return p.harmlessObject()
}

// createTable parses the definition of a table. An existing table is unchanged, unless the statement has OR
// REPLACE. If the table must not exist, a followed table was dropped before.
func (p *sqlParser) createTable(replaces, temporary bool) statement {
	exists := p.ifExists()
	table, ok := p.name()
	switch {
	case !ok:
		return unknownSQL
	case table >= 0 && !temporary && (replaces || !exists):
		return schemaChangeOf(table, ChangeOther)
	}
	for p.pos < len(p.tokens) {
		switch t := p.at(0); {
		case t.is("SELECT"):
			return rowsBySQL // the functions that it calls may write
		case t.is("TABLE"), t.is("VALUES") && (p.at(1).is("ROW") || p.at(1).op("(")):
			return rowsBySQL // a partition has VALUES IN (…) or VALUES LESS THAN
		case t.is("UNION"):
			p.pos++
			if s := p.mergeTables(); s.kind != statementOther {
				return s
			}
			continue
		case t.op(";") && p.pos != len(p.tokens)-1:
			return unknownSQL
		}
		p.pos++
	}
	return harmless
}

// mergeTables parses the tables that a MERGE table writes to: UNION = (a, b).
func (p *sqlParser) mergeTables() statement {
	p.acceptOp("=")
	if !p.acceptOp("(") {
		return unknownSQL
	}
	if p.acceptOp(")") {
		return harmless
	}
	return p.tableList()
}

func (p *sqlParser) alter() statement {
	ignores := false
	for p.acceptAny("ONLINE", "OFFLINE") || p.at(0).is("IGNORE") {
		ignores = p.accept("IGNORE") || ignores
	}
	switch {
	case p.accept("TABLE"):
		return p.alterTable(ignores)
	case p.acceptAny("DATABASE", "SCHEMA"):
		return p.alterSchema()
	}
	return p.harmlessObject()
}

// alterSchema parses changes of a schema's defaults. Any other change may rename the schema.
func (p *sqlParser) alterSchema() statement {
	table := p.tableIn(p.schema)
	if !p.at(0).is("CHARACTER") && !p.at(0).is("CHARSET") && !p.at(0).is("COLLATE") && !p.at(0).is("DEFAULT") && !p.at(0).is("READ") {
		var ok bool
		if table, ok = p.followedSchema(); !ok {
			return unknownSQL
		}
	}
	if table >= 0 && p.at(0).is("UPGRADE") {
		return schemaChangeOf(table, ChangeOther)
	}
	return harmless
}

// alterTable parses the altered table, and the tables that its actions name: a new name, a table whose rows
// are exchanged or moved, those of a MERGE table.
func (p *sqlParser) alterTable(ignores bool) statement {
	p.ifExists()
	table, ok := p.name()
	if !ok {
		return unknownSQL
	}
	p.lockWait()
	kind := ChangeColumns
	if ignores {
		kind = ChangeOther // it may remove rows
	}
	for depth := 0; p.pos < len(p.tokens); {
		other, isNamed := -1, true
		t := p.at(0)
		p.pos++
		switch {
		case t.op("("):
			depth++
		case t.op(")"):
			depth--
		case t.op(";") && !p.done():
			return unknownSQL
		case depth > 0:
		case t.is("RENAME"):
			if p.acceptAny("COLUMN", "INDEX", "KEY") {
				continue
			}
			kind = ChangeOther
			if !p.acceptAny("TO", "AS") {
				p.acceptOp("=")
			}
			other, isNamed = p.name()
		case t.is("WITH") && p.accept("TABLE"), t.is("CONVERT") && p.accept("TABLE"): // EXCHANGE PARTITION, CONVERT TABLE
			kind = ChangeOther
			other, isNamed = p.name()
		case t.is("CONVERT") && p.accept("PARTITION"):
			kind = ChangeOther
			p.pos++
			isNamed = p.accept("TO", "TABLE")
			if isNamed {
				other, isNamed = p.name()
			}
		case t.is("UNION"):
			if s := p.mergeTables(); s.kind != statementOther {
				return s
			}
		case partitioned(t):
			kind = ChangeOther
		}
		switch {
		case !isNamed:
			return unknownSQL
		case other >= 0:
			return schemaChangeOf(other, ChangeOther)
		}
	}
	return schemaChangeOf(table, kind)
}

// partitioned reports whether an action removes or exchanges rows as a whole.
func partitioned(t sqlToken) bool {
	if t.kind != sqldigest.KindKeyword && t.kind != sqldigest.KindIdent {
		return false
	}
	for _, w := range [...]string{"PARTITION", "PARTITIONS", "PARTITIONING", "TABLESPACE", "SYSTEM", "PERIOD", "VERSIONING"} {
		if t.is(w) {
			return true
		}
	}
	return false
}
