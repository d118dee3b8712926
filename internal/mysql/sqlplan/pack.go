package sqlplan

import "unsafe"

// conclude derives the final properties from the analysis.
func (a *analysis) conclude() {
	defer a.reachContent()
	if a.parsed {
		if a.tables.unknownCall {
			a.effects |= EffectFunction
			a.readOnly = false
		}
		if a.typ == TypeExplain && a.readOnly {
			for i := range a.tables.list { // none of it is executed
				a.tables.list[i].access = AccessRead
			}
		}
		return
	}
	a.guessTables()
	switch a.typ {
	case TypeBegin, TypeCommit, TypeRollback, TypeSavepoint, TypeUse, TypeUnlock, TypeDeallocate, TypeKill, TypeXA:
		a.parsed = !a.opaque && a.depth == 0 // they name no table in any form
	case TypeLoad:
		if a.depth > 0 { // of a column list, or of a call
			a.effects |= EffectFunction
		}
		a.readOnly = false
	case TypeSelect, TypeInsert, TypeReplace, TypeUpdate, TypeDelete, TypeMulti:
		a.effects |= EffectFunction
		a.readOnly = false
	case TypeSet, TypeDo, TypeExplain, TypeShow:
		if a.depth > 0 {
			a.effects |= EffectFunction
			a.readOnly = false
		} else if a.typ == TypeSet && !a.opaque {
			a.parsed = true // no subquery: no tables
		}
	}
}

// plan packs the analysis into a plan whose arena has spare capacity.
func (a *analysis) plan() *Plan {
	var b []byte
	for _, t := range a.tables.list {
		b = appendTable(b, t)
	}
	p := &Plan{typ: a.typ, effects: a.effects, tablesEnd: uint32(len(b))}
	for _, h := range a.hints {
		b = appendHint(b, a.text[h[0]:h[1]])
	}
	p.hintsEnd = uint32(len(b))
	last := 0
	for _, i := range a.literals {
		at := int(a.toks[i].start)
		b = appendPosition(b, at-last)
		last = at
	}
	p.literals, p.literalsEnd = uint32(len(a.literals)), uint32(len(b))
	b = append(b, a.lacking...)
	p.arena = unsafe.String(unsafe.SliceData(b), len(b))
	if a.readOnly {
		p.flags |= flagReadOnly
	}
	if a.parsed {
		p.flags |= flagParsed
	}
	for i := range a.toks {
		if a.is(i, "use") {
			p.flags |= flagUse
		}
	}
	if a.remode || a.opaque {
		p.flags |= flagModes
	}
	if a.routine {
		p.flags |= flagRoutine
	}
	return p
}
