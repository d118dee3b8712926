//go:build e2e

package settings

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// tryAll runs cases in groups of different variables. The values of a group are in effect together, so a group
// whose commands succeed with equal rows is that many cases. Of any other group, cases that the output names run
// alone; otherwise each half runs. So each outcome but equal is that of one case alone.
func (p *pair) tryAll(t *testing.T, cases []setting) {
	t.Helper()
	p.restore(t)
	for len(cases) > 0 {
		var now, later []setting
		for i, c := range cases {
			if len(now) == *group {
				later = append(later, cases[i:]...)
				break
			}
			if slices.ContainsFunc(now, func(o setting) bool { return o.variable == c.variable }) {
				later = append(later, c)
			} else {
				now = append(now, c)
			}
		}
		cases = append(p.tryGroup(t, now), later...)
	}
}

// tryGroup runs the cases of a group, and returns those that cannot be together with the others.
func (p *pair) tryGroup(t *testing.T, cases []setting) (conflicts []setting) {
	t.Helper()
	if len(cases) == 0 {
		return nil
	}
	p.reset(t)
	set, conflicts := p.set(t, cases)
	if len(set) == 0 {
		p.restore(t)
		return conflicts
	}
	outcome, why := p.try(t, func(out string) bool {
		return slices.ContainsFunc(set, func(c setting) bool { return names(out, c.variable) })
	})
	if p.revive(t) {
		outcome = ended
	}
	p.restore(t)
	switch {
	case outcome == equal || len(set) == 1:
		for _, c := range set {
			p.report(t, c, outcome, why)
		}
		return conflicts
	case outcome == refused:
		i := slices.IndexFunc(set, func(c setting) bool { return names(why, c.variable) })
		if i >= 0 {
			conflicts = append(conflicts, p.tryGroup(t, set[i:i+1])...)
			return append(conflicts, p.tryGroup(t, slices.Delete(set, i, i+1))...)
		}
	}
	t.Logf("%d cases: %s: %s", len(set), outcome, why)
	half := len(set) / 2
	conflicts = append(conflicts, p.tryGroup(t, slices.Clone(set[:half]))...)
	return append(conflicts, p.tryGroup(t, set[half:])...)
}

// set sets the variables of cases, and returns those that are in effect. It reports those that need no run, and
// returns as conflicts those that another one of them changes or prevents.
func (p *pair) set(t *testing.T, cases []setting) (set, conflicts []setting) {
	t.Helper()
	var values [][2]sql.NullString
	for _, c := range cases {
		was, now, err := p.setOne(t, c)
		if err != nil && p.revive(t) { // the values before it are lost
			p.report(t, c, ended, err.Error())
			p.restore(t)
			return nil, append(conflicts, slices.DeleteFunc(slices.Clone(cases), func(o setting) bool { return o == c || p.reported[o] })...)
		}
		switch {
		case err != nil && len(set) > 0:
			conflicts = append(conflicts, c)
		case err != nil:
			p.report(t, c, unsettable, err.Error())
		case was == now:
			p.report(t, c, same, "")
		default:
			set, values = append(set, c), append(values, now)
		}
	}
	for i := len(set) - 1; i >= 0 && len(set) > 1; i-- {
		if now, err := p.read(set[i]); err == nil && now != values[i] {
			conflicts = append(conflicts, set[i])
			set = slices.Delete(set, i, i+1)
		}
	}
	if len(conflicts) > 0 && len(set) > 0 { // their changes are restored
		p.restore(t)
		again, more := p.set(t, set)
		return again, append(conflicts, more...)
	}
	return set, conflicts
}

// setOne sets the variable on the case's servers, and returns its values before and after.
func (p *pair) setOne(t *testing.T, c setting) (was, now [2]sql.NullString, err error) {
	t.Helper()
	if was, err = p.read(c); err != nil {
		return was, now, err
	}
	for i := range p.servers {
		if c.on(i) {
			if err := p.exec(i, "SET GLOBAL "+c.variable+" = "+c.value); err != nil {
				return was, now, err
			}
		}
	}
	now, err = p.read(c)
	return was, now, err
}

// read returns the variable's values on the case's servers.
func (p *pair) read(c setting) (values [2]sql.NullString, err error) {
	for i := range p.servers {
		if c.on(i) {
			err = errors.Join(err, p.sessions[i].QueryRow("SELECT @@GLOBAL."+c.variable).Scan(&values[i]))
		}
	}
	return values, err
}

// revive starts the servers again that a case has ended, and reports whether there were any.
func (p *pair) revive(t *testing.T) (died bool) {
	t.Helper()
	for i, s := range p.servers {
		if p.exec(i, "DO 1") != nil && p.exec(i, "DO 1") != nil { // the second one is by a new connection
			died = true
			t.Logf("server %d: the end of its log: %s", i, s.Log()[max(0, len(s.Log())-2000):])
			_ = s.Kill() // one that hangs
			must(t, s.Restart())
		}
	}
	return died
}

// on reports whether the case sets the variable on the source (0) or the target (1).
func (s setting) on(i int) bool {
	return s.sides == "both" || s.sides == [2]string{"source", "target"}[i]
}

// globals returns the values of all variables with cases.
func (p *pair) globals(t *testing.T, i int) []sql.NullString {
	t.Helper()
	values := make([]sql.NullString, len(p.names))
	into := make([]any, len(values))
	for k := range values {
		into[k] = &values[k]
	}
	must(t, p.sessions[i].QueryRow("SELECT @@GLOBAL."+strings.Join(p.names, ", @@GLOBAL.")).Scan(into...))
	return values
}

// restore restores all variables of both servers. Some can be set after others only.
func (p *pair) restore(t *testing.T) {
	t.Helper()
	for i := range p.servers {
		var failed []string
		for range 4 {
			failed = nil
			for k, now := range p.globals(t, i) {
				if was := p.before[i][k]; now != was {
					if err := p.restoreOne(i, p.names[k], was); err != nil {
						failed = append(failed, fmt.Sprintf("%s: %v", p.names[k], err))
					}
				}
			}
			if failed == nil {
				break
			}
		}
		if failed != nil {
			t.Fatalf("server %d: variables remain changed: %v", i, failed)
		}
	}
}

func (p *pair) restoreOne(i int, name string, was sql.NullString) error {
	if !was.Valid {
		return p.exec(i, "SET GLOBAL "+name+" = NULL")
	}
	err := p.exec(i, "SET GLOBAL "+name+" = "+quote(was.String))
	if err != nil {
		err = p.exec(i, "SET GLOBAL "+name+" = "+was.String) // a number
	}
	if err != nil {
		err = p.exec(i, "SET GLOBAL "+name+" = DEFAULT")
	}
	return err
}
