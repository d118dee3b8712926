package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A kind is one kind of record.
type kind struct {
	name                    string
	file, pkg, typ, receive string
	fields                  []field
}

// A field is one line of the table.
type field struct {
	name, typ, value, when, filter, unit, meaning string

	column string // name of the column on the Live page; "" if there is none
	place  int    // of the column
	shown  bool   // show the column by default
	joined bool   // in the same row of the documentation as the previous field
}

// columns is the number of columns of the table.
const columns = 8

// parse reads the table.
func parse(table string) (kinds []*kind, err error) {
	for n, line := range strings.Split(table, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "] "); ok && line[0] == '[' {
			k := &kind{name: name}
			if _, err := fmt.Sscan(rest, &k.file, &k.pkg, &k.typ, &k.receive); err != nil {
				return nil, fmt.Errorf("line %d: want file, package, type and receiver: %w", n+1, err)
			}
			kinds = append(kinds, k)
			continue
		}
		if len(kinds) == 0 {
			return nil, fmt.Errorf("line %d: a field before the first kind", n+1)
		}
		k := kinds[len(kinds)-1]
		f, err := parseField(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		if f.joined = f.meaning == "^"; f.joined {
			if len(k.fields) == 0 {
				return nil, fmt.Errorf("line %d: no field before %s", n+1, f.name)
			}
			last := k.fields[len(k.fields)-1]
			f.meaning, f.unit = last.meaning, cmp.Or(f.unit, last.unit)
		}
		k.fields = append(k.fields, f)
	}
	return kinds, nil
}

func parseField(line string) (f field, err error) {
	var cells [columns]string
	i := 0
	for word := range strings.FieldsSeq(line) {
		switch {
		case word != "|":
			cells[i] = strings.TrimSpace(cells[i] + " " + word)
		case i == columns-1:
			return f, fmt.Errorf("more than %d columns", columns)
		default:
			i++
		}
	}
	if i != columns-1 {
		return f, fmt.Errorf("%d columns, want %d", i+1, columns)
	}
	f = field{name: cells[0], typ: cells[1], value: cells[2], when: cells[3], filter: cells[4], unit: cells[6], meaning: cells[7]}
	if cells[5] != "" {
		place, title, _ := strings.Cut(cells[5], " ")
		f.column, f.shown = strings.CutSuffix(title, " *")
		if f.place, err = strconv.Atoi(place); err != nil {
			return f, fmt.Errorf("column %q: %w", cells[5], err)
		}
	}
	return f, nil
}

// page returns the fields that are columns of the Live page, in its order.
func (k *kind) page() []field {
	list := slices.DeleteFunc(slices.Clone(k.fields), func(f field) bool { return f.column == "" })
	slices.SortFunc(list, func(a, b field) int { return a.place - b.place })
	return list
}

// format returns the format of the field's values on the page.
func (f field) format() string {
	switch {
	case f.typ == "time", f.typ == "duration":
		return f.typ
	case f.unit == "bytes":
		return "bytes"
	case f.typ == "uint", f.typ == "int":
		return "number"
	}
	return "text"
}

// docs returns the list of the documentation.
func (k *kind) docs() []byte {
	var b []byte
	for i := 0; i < len(k.fields); {
		f := k.fields[i]
		b = append(b, "- `"+f.name+"`"...)
		for i++; i < len(k.fields) && k.fields[i].joined; i++ {
			b = append(b, ", `"+k.fields[i].name+"`"...)
		}
		if f.unit != "" {
			b = append(b, " ("+f.unit+")"...)
		}
		if f.meaning != "" {
			b = append(b, ": "+f.meaning...)
		}
		b = append(b, '\n')
	}
	return b
}
