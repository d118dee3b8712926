package follow

// Rows of a table that several sources have rows of are inserted if a row of another source may have the same unique key (tabledef.Owned). Before,
// the rows of the same source that have one of their keys are deleted, as REPLACE would do. Several rows share these statements:
//
//	DELETE … WHERE id IN (1, 2, 3) AND (owned)
//	DELETE … WHERE email IN ('a', 'b', 'c') AND (owned)
//	INSERT … VALUES (1, 'a'), (2, 'b'), (3, 'c')
//
// No two of them have the same value of a unique key: they are new images of changes in order, and none of them is changed by another one, since a
// change of the same key, and any DELETE, starts new statements. So the source had all of them after the last change, under the same
// unique keys.

// An insertion has the statements for rows that are inserted together.
type insertion struct {
	deletes [][]byte // of each unique key, without the end
	keys    []int    // numbers of keys in them
	rows    []byte
	count   int
	seen    map[string]bool // the keys of the rows
	key     []byte
}

// reset discards the rows. keys is the number of unique keys.
func (i *insertion) reset(keys int) {
	if i.deletes == nil {
		i.deletes, i.keys, i.seen = make([][]byte, keys), make([]int, keys), make(map[string]bool)
	}
	for k := range i.deletes {
		i.deletes[k] = i.deletes[k][:0]
	}
	clear(i.keys)
	clear(i.seen)
	i.rows, i.count = i.rows[:0], 0
	if cap(i.rows) > scriptKeep {
		i.rows = nil
	}
}

// insert appends the after image to the rows that are inserted together, or to new ones.
func (a *applier) insert(s *script, t int) {
	table, i := &a.tables[t], &s.insertion
	if i.deletes == nil {
		i.reset(len(table.displaced))
	}
	i.key = table.sql.AppendKeyBytes(i.key[:0], a.after)
	if i.count > 0 && (a.size > sharedRow || i.count == applyKeys || len(i.rows) >= applyBytes || i.seen[string(i.key)]) {
		a.flush(s, t)
	}
	i.seen[string(i.key)] = true
	for number, k := range table.displaced {
		if !k.HasKey(a.after) {
			continue
		}
		if i.keys[number] == 0 {
			i.deletes[number] = k.AppendDeleteHead(i.deletes[number])
		}
		i.deletes[number] = k.AppendKey(i.deletes[number], a.after, i.keys[number] == 0)
		i.keys[number]++
	}
	if i.count == 0 {
		i.rows = table.sql.AppendReplaceHead(i.rows)
	}
	i.rows = table.sql.AppendRow(i.rows, a.after, i.count == 0)
	i.count++
}

// flush appends the statements for the rows that are inserted together.
func (a *applier) flush(s *script, t int) {
	i := &s.insertion
	if i.count == 0 {
		return
	}
	a.closeStatement(s, t)
	for number, k := range a.tables[t].displaced {
		if i.keys[number] > 0 {
			from := len(s.text)
			s.text = k.AppendDeleteTail(append(s.text, i.deletes[number]...))
			s.statements = append(s.statements, statement{from: from, to: len(s.text), rows: i.keys[number], kind: displacedRows})
		}
	}
	from := len(s.text)
	s.text = append(s.text, i.rows...)
	s.statements = append(s.statements, statement{from: from, to: len(s.text), rows: i.count, kind: replaceRows})
	i.reset(len(i.deletes))
}

// insertsBeside reports whether a writer inserts rows into a table with several unique keys.
func (a *applier) insertsBeside(writer int) bool {
	for t := range a.tables {
		if len(a.tables[t].displaced) > 1 && len(a.script(writer, t).statements) > 0 {
			return true
		}
	}
	return false
}
