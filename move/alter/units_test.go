package alter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestOptions has options at the edges of their ranges.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string // "": valid
	}{
		{"the defaults", func(*Options) {}, ""},
		{"kept for less than no time", func(o *Options) { o.KeepOld = -1 }, "is kept for -1ns"},
		{"a window", func(o *Options) { o.KeepOld, o.RevertWindow = time.Hour, time.Hour }, ""},
		{"a window of less than no time", func(o *Options) { o.RevertWindow = -1 }, "window of -1ns"},
		{"a window that is longer than the table is kept", func(o *Options) { o.KeepOld, o.RevertWindow = time.Hour, time.Hour+1 }, "raise option keep-old"},
		{"no schema", func(o *Options) { o.Schema = "" }, "no table"},
		{"no table", func(o *Options) { o.Table = "" }, "no table"},
		{"always a copy", func(o *Options) { o.AlwaysCopy = true }, ""},
		{"never a copy", func(o *Options) { o.NeverCopy = true }, ""},
		{"always and never", func(o *Options) { o.AlwaysCopy, o.NeverCopy = true, true }, "exclude each other"},
		{"a second", func(o *Options) { o.MaxLockWait = time.Second }, ""},
		{"less than a second", func(o *Options) { o.MaxLockWait = time.Second - 1 }, "whole seconds"},
		{"a second and a half", func(o *Options) { o.MaxLockWait = 1500 * time.Millisecond }, "whole seconds"},
		{"a try", func(o *Options) { o.LockTries = 1 }, ""},
		{"negative tries", func(o *Options) { o.LockTries = -1 }, "-1 tries"},
		{"a gateway without a scheme", func(o *Options) { o.Gateway.URL = "x" }, "gateway"},
		{"no address", func(o *Options) { o.On.Addr = "" }, "no address"},
	} {
		o := Options{On: mysqlconn.Config{Addr: "x:1"}, Schema: "s", Table: "t"}
		c.change(&o)
		err := o.validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if o.MaxLockWait == 0 || o.LockTries == 0 || o.MaxInplace != DefaultMaxInplace || o.Monitor == nil || o.Observe == nil || o.Swapped == nil {
			t.Errorf("%s: %+v", c.name, o)
		}
		if err == nil && o.On.Patience != o.Patience {
			t.Errorf("%s: the connection has a patience of %v", c.name, o.On.Patience)
		}
	}
}

// TestWays chooses the way by the verdict and the size, and the next one after a refusal.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		v    Verdict
		size int64
		o    Options
		want Way
		next Way // after a refusal of it
	}{
		{Verdict{Error: "no"}, 0, Options{AlwaysCopy: true}, WayNone, WayCopy},
		{Verdict{Algorithm: Instant}, 0, Options{AlwaysCopy: true}, WayCopy, WayCopy},
		{Verdict{Algorithm: Instant}, 10, Options{}, WayInstant, WayInplace},
		{Verdict{Algorithm: Instant}, 11, Options{}, WayInstant, WayCopy},
		{Verdict{Algorithm: Instant}, 11, Options{NeverCopy: true}, WayInstant, WayNone},
		{Verdict{Algorithm: Unknown}, 11, Options{}, WayInstant, WayInplace},
		{Verdict{Algorithm: Inplace, Lock: "none"}, 11, Options{}, WayInplace, WayCopy},
		{Verdict{Algorithm: Inplace, Lock: "none", Index: true}, 10, Options{}, WayInplace, WayCopy},
		{Verdict{Algorithm: Inplace, Lock: "none", Index: true}, 11, Options{}, WayCopy, WayCopy},
		{Verdict{Algorithm: Inplace, Lock: "none", Rebuild: true}, 11, Options{}, WayCopy, WayCopy},
		{Verdict{Algorithm: Inplace, Lock: "none", Rebuild: true}, 11, Options{NeverCopy: true}, WayNone, WayNone},
		{Verdict{Algorithm: Inplace, Lock: "shared"}, 1, Options{}, WayCopy, WayCopy},
		{Verdict{Algorithm: Copied, Lock: "none"}, 1, Options{}, WayCopy, WayCopy},
	} {
		c.o.MaxInplace = 10
		g := &Judgement{Whole: c.v, Bytes: c.size}
		way, why := c.o.choose(g)
		if way != c.want || why == "" {
			t.Errorf("%+v, %d bytes, %+v: %v (%s), want %v", c.v, c.size, c.o, way, why, c.want)
		}
		if next, why := c.o.next(way, g, "its reason"); next != c.next || !strings.Contains(why, "its reason") {
			t.Errorf("%+v, %d bytes: after a refusal %v (%s), want %v", c.v, c.size, next, why, c.next)
		}
	}
}

// TestRefuseCopy has tables and servers that a copy cannot alter, at the edges of versions and names.
func TestRefuseCopy(t *testing.T) {
	table := func(key string) *rowstream.Table {
		x := &rowstream.Table{Name: "t", Create: "CREATE TABLE `t` (\n  `id` int(11) NOT NULL,\n  `maybe` int(11),\n  `kind` enum('a') NOT NULL,\n  " + key + "\n) ENGINE=InnoDB"}
		x.Columns = []rowstream.Column{{Name: "id", Type: "int"}, {Name: "maybe", Type: "int", Nullable: true}, {Name: "kind", Type: "enum"}}
		return x
	}
	keyed := table("PRIMARY KEY (`id`)")
	keyed.Key = []int{0}
	triggers := *keyed
	triggers.Triggers = []string{"tr"}
	statement := func(name string) *Statement { return &Statement{Schema: "s", Table: name} }
	const maria = "11.4.2-MariaDB"
	for _, c := range []struct {
		s          *Statement
		t          *rowstream.Table
		references []string
		version    string
		want       string // "": it can
	}{
		{statement("t"), keyed, nil, maria, ""},
		{statement("t"), keyed, nil, "8.0.13", ""},
		{statement("t"), keyed, nil, "8.0.12", "before 8.0.13"},
		{statement("t"), keyed, nil, "8.1.0", ""},
		{statement("t"), keyed, nil, "9.0.0", ""},
		{statement("t"), keyed, nil, "5.7.44", "before 8.0.13"},
		{statement("t"), keyed, nil, "?", "before 8.0.13"},
		{statement("t"), &triggers, nil, maria, "triggers (tr)"},
		{statement("t"), keyed, []string{"fk"}, maria, "foreign keys refer from or to it (fk)"},
		{statement(strings.Repeat("é", 63-len(inventory.SentryPrefix))), keyed, nil, maria, ""},
		{statement(strings.Repeat("é", 64-len(inventory.SentryPrefix))), keyed, nil, maria, "too long"},
		{&Statement{Table: "t", Clauses: []Clause{{}, {Text: "c", notByCopy: "reason"}}}, keyed, nil, maria, `clause "c": reason`},
		{statement("t"), table("KEY `k` (`id`)"), nil, maria, "no primary or unique key"},
		{statement("t"), table("KEY `k` (`id`),\n  UNIQUE KEY `u` (`maybe`)"), nil, maria, "key u has the column `maybe`, which can be NULL"},
		{statement("t"), table("PRIMARY KEY (`id`,`kind`)"), nil, maria, "key PRIMARY has the column `kind` of the type ENUM"},
		{statement("t"), table("UNIQUE KEY `u` (`id`(3))"), nil, maria, "key u is of a prefix, `id`(3)"},
		{statement("t"), table("UNIQUE KEY `u` ((`id` + 1))"), nil, maria, "key u is of a value that is computed"},
		{statement("t"), table("UNIQUE KEY `u` (`ID` DESC)"), nil, maria, "key u is invisible or ignored"},
	} {
		if got := refuseCopy(c.s, c.t, c.references, c.version); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s, %s: got %q, want %q", c.s.Table, c.version, got, c.want)
		}
	}
	for name, want := range map[string]string{"t": "~", "~": "\uffee", "}z": "~", "é": "\uffee"} {
		if got := statement(name).sentry(); !strings.HasPrefix(got, want) || got <= name {
			t.Errorf("the sentry of %s is %s", name, got)
		}
	}
}

// TestConstantDefault finds defaults that are the same for all rows.
func TestConstantDefault(t *testing.T) {
	for line, want := range map[string]bool{
		"`a` int": true, "`a` int DEFAULT 1": true, "`a` int DEFAULT -1": true, "`a` int DEFAULT NULL": true, "`a` char DEFAULT 'x'": true, "`a` int DEFAULT 9": true,
		"`a` bit DEFAULT b'1'": true, "`a` binary DEFAULT x'00'": true, "`a` char DEFAULT _utf8'x'": true, "`a` datetime DEFAULT current_timestamp()": true,
		"`a` char DEFAULT uuid()": false, "`a` int DEFAULT (1 + 1)": false, "`a DEFAULT uuid()` int DEFAULT 1": true, "`a` char COMMENT ' DEFAULT uuid()'": true,
		"`a` char COMMENT 'x' DEFAULT uuid()": false, "`a` char DEFAULT '": true,
	} {
		if got := constantDefault(line); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
}

// TestDefinitions compares definitions without what a copy of the table has otherwise.
func TestDefinitions(t *testing.T) {
	const create = "CREATE TABLE `t` (\n  `id` int(11) NOT NULL,\n  KEY `k` (`id`),\n  CONSTRAINT `c` CHECK (`id` > 1),\n  CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `o` (`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4"
	const want = "  `id` int(11) NOT NULL\n  KEY `k` (`id`)\n  CHECK (`id` > 1)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
	if got := bareDefinition(create); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if strings.Contains(definition(create), "=7") || !strings.Contains(definition(create), "FOREIGN KEY") {
		t.Errorf("got %s", definition(create))
	}
	table := &rowstream.Table{Name: "t", Create: "CREATE TABLE `t` (\n  `id` int,\n  CONSTRAINT `t_chk_1` CHECK (1),\n  CONSTRAINT `mine` CHECK (2)\n)"}
	if notes := checkNotes(table, "8.4.0"); len(notes) != 1 || !strings.Contains(notes[0], "`mine`") {
		t.Errorf("notes: %q", notes)
	}
	if notes := checkNotes(table, "11.4.2-MariaDB"); notes != nil {
		t.Errorf("notes of MariaDB: %q", notes)
	}
}

// TestKeys has keys of new definitions, by one condition each.
func TestKeys(t *testing.T) {
	columns := []rowstream.Column{{Name: "id", Type: "int", FullType: "int(11)"}, {Name: "a", Type: "int", FullType: "int(11)"}, {Name: "maybe", Type: "int", FullType: "int(11)", Nullable: true}}
	m := &tabledef.Mapping{}
	for _, c := range columns {
		m.Columns = append(m.Columns, tabledef.MappedColumn{From: c.Name, Column: c})
	}
	m.Columns[1].Column.Name = "Renamed"
	m.Columns = append(m.Columns, tabledef.MappedColumn{Column: rowstream.Column{Name: "added"}})
	table := func(keys string) *rowstream.Table {
		return &rowstream.Table{Columns: columns, Key: []int{0}, Create: "CREATE TABLE `t` (\n  `id` int(11) NOT NULL,\n  " + keys + "\n) ENGINE=InnoDB"}
	}
	for _, c := range []struct{ source, target, want string }{
		{"PRIMARY KEY (`id`)", "PRIMARY KEY (`id`)", ""},
		{"PRIMARY KEY (`id`)", "KEY `k` (`added`),\n  PRIMARY KEY (`id`)", ""},
		{"KEY `k` (`a`),\n  PRIMARY KEY (`id`)", "PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`Renamed`)", "the key u (`Renamed`) is unique and new"},
		{"PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`a`)", "PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`Renamed`)", ""},
		{"PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`a` DESC)", "PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`Renamed`)", ""},
		{"PRIMARY KEY (`id`)", "PRIMARY KEY (`id`,`Renamed`)", ""},
		{"PRIMARY KEY (`id`)", "PRIMARY KEY (`Renamed`)", "is unique and new"},
		{"PRIMARY KEY (`id`)", "UNIQUE KEY `u` (`id`,`added`)", "could not be followed"},
		{"PRIMARY KEY (`id`)", "KEY `k` (`id`)", "of the old definition that are never NULL, such as (id)"},
		{"UNIQUE KEY `u` (`maybe`)", "UNIQUE KEY `u` (`maybe`)", "could not be followed"},
	} {
		err := safeKeys(m, table(c.source), table(c.target))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: got %v, want %q", c.source, c.target, err, c.want)
		}
	}
	for part, want := range map[string]string{
		"`id`": "`id`", "`ID` DESC": "`id`", "`renamed`": "`a`", "`renamed`(10)": "LEFT(`a`, 10)", "`added`": "", "`id2`": "", "(`id` + 1)": "",
	} {
		if got := sourcePart(m, part); got != want {
			t.Errorf("%s: %q, want %q", part, got, want)
		}
	}
}

// TestLosses has definitions into which rows of the altered table do not go back unchanged.
func TestLosses(t *testing.T) {
	column := func(name, kind string, nullable bool) rowstream.Column {
		return rowstream.Column{Name: name, Type: kind, FullType: kind, Nullable: nullable}
	}
	id, wide, maybe := column("id", "int", false), column("n", "bigint", false), column("n", "int", true)
	n := column("n", "int", false)
	table := func(create string, columns ...rowstream.Column) *rowstream.Table {
		return &rowstream.Table{Name: "t", Create: "CREATE TABLE `t` (\n  `id` int,\n" + create, Columns: columns, Key: []int{0}}
	}
	const check, parts = "  CONSTRAINT `c` CHECK (`id` > 1)\n)", "  KEY `k` (`id`)\n) ENGINE=InnoDB\n PARTITION BY HASH (`id`)\nPARTITIONS 2"
	for _, c := range []struct {
		old, altered *rowstream.Table
		want         []string
	}{
		{table(")", id, n), table(")", id, n), nil},
		{table(")", id, n), table(")", id), []string{"column n is dropped"}},
		{table(")", n, id), table(")", id), []string{"column n is dropped"}},
		{table(")", id, n), table(")", id, wide), []string{"column n: bigint has values that int has not"}},
		{table(")", id, wide), table(")", id, n), nil},
		{table(")", id, n), table(")", id, maybe), []string{"column n can be NULL in the new definition alone"}},
		{table(")", id, maybe), table(")", id, n), nil},
		{table(check, id), table(")", id), []string{"a constraint that rows could violate: "}},
		{table(check, id), table(check, id), nil},
		{table(")", id), table(check, id), nil},
		{table(parts, id), table(")", id), []string{"no partition for rows"}},
		{table(parts, id), table(parts, id), nil},
		{table(")", id), table(parts, id), nil},
	} {
		m := &tabledef.Mapping{}
		for _, x := range c.old.Columns {
			m.Columns = append(m.Columns, tabledef.MappedColumn{From: x.Name, Column: x})
		}
		got := losses(m, c.old, c.altered)
		if !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%v %s from %v %s: got %q, want %q", c.old.Columns, c.old.Create, c.altered.Columns, c.altered.Create, got, c.want)
		}
	}
	s := &Statement{renamed: map[string]string{"now": "n"}}
	for _, c := range []struct {
		old, altered []int
		same         bool
	}{{[]int{0}, []int{0}, true}, {[]int{0}, []int{1}, false}, {[]int{1}, []int{1}, true}, {[]int{0, 1}, []int{0, 1}, true}, {[]int{0, 1}, []int{1, 0}, false}, {[]int{0, 1}, []int{0}, false}} {
		old, altered := table(")", id, n), table(")", id, column("NOW", "int", false))
		old.Key, altered.Key = c.old, c.altered
		if err := s.sameKeys(old, altered); (err == nil) != c.same {
			t.Errorf("keys %v and %v: %v", c.old, c.altered, err)
		}
	}
}

// TestUnsupported distinguishes errors of an algorithm that is not supported from others.
func TestUnsupported(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errors.New("lost"), false},
		{&mysqlconn.ServerError{Number: errNotSupported, Message: "m"}, true},
		{&mysqlconn.ServerError{Number: errNotSupportedWhy, Message: "m"}, true},
		{&mysqlconn.ServerError{Number: errWrongUsage, Message: "m"}, true},
		{&mysqlconn.ServerError{Number: 1064, Message: "m"}, false},
		{&mysqlconn.ServerError{Number: errMaxFields, Message: "m", Version: "8.4.0"}, true},
		{&mysqlconn.ServerError{Number: errMaxRowVersions, Message: "m", Version: "11.4.2-MariaDB"}, false},
	} {
		reason, got := unsupported(fmt.Errorf("execute: %w", c.err))
		if got != c.want || got && reason != "m" {
			t.Errorf("%v: %q, %t", c.err, reason, got)
		}
	}
	for version, want := range map[string]string{"8.4.0": "ALGORITHM=INSTANT", "11.4.2-MariaDB": "ALGORITHM=INSTANT, LOCK=NONE"} {
		if got := instantlyOn(&mysqlconn.Client{ServerVersion: version}); got != want {
			t.Errorf("%s: %s", version, got)
		}
	}
	var b limitedBuffer
	for _, n := range []int{hookOutput - 1, 2, 5} {
		if m, err := b.Write(make([]byte, n)); m != n || err != nil {
			t.Errorf("%d bytes: %d, %v", n, m, err)
		}
	}
	if b.Len() != hookOutput {
		t.Errorf("%d bytes are kept, of at most %d", b.Len(), hookOutput)
	}
}

// TestMonitor has the status and the metrics of an alteration, and the bounds of their lists.
func TestMonitor(t *testing.T) {
	m := &Monitor{server: "uuid"}
	m.begin("db:3306", "t", "c")
	s := m.Status()
	if s.From != "db:3306" || s.To != "db:3306" || !slices.Equal(s.Servers, []string{"uuid"}) || s.Started.IsZero() || s.Alter.Table != "t" || s.Alter.Tries == nil {
		t.Errorf("%+v", s)
	}
	m.named("T", "C")
	m.chose(WayCopy, "why")
	m.step(telemetry.StepChecking) // it has started before
	m.step(telemetry.StepCopying)
	began := time.Now().Add(-time.Hour)
	m.tried(began, nil)
	m.tried(began, errors.New("late"))
	a := m.status()
	if a.Table != "T" || a.Alter != "C" || a.Way != string(WayCopy) || a.Why != "why" || len(a.Steps) != 2 || a.Step() != telemetry.StepCopying {
		t.Errorf("%+v", a)
	}
	if a.LockTries != 2 || len(a.Tries) != 2 || a.Tries[0].Error != "" || a.Tries[1].Error != "late" || a.LockSeconds < 3600 || a.LockSeconds > 7000 {
		t.Errorf("%+v", a)
	}
	until := time.Unix(1e9, 0)
	m.old("old", &Kept{State: KeptDropped}, until)
	if o := m.status().Old; o.Until != nil || o.Name != "old" {
		t.Errorf("%+v", o)
	}
	m.old("old", &Kept{State: KeptKept, NoWay: "w", Lossy: []string{"l"}}, until)
	if o := m.status().Old; !o.Until.Equal(until) || o.NoWay != "w" || !slices.Equal(o.Lossy, []string{"l"}) {
		t.Errorf("%+v", o)
	}
	m.swapped(1500 * time.Millisecond)
	m.queued([]telemetry.QueueItem{{State: telemetry.QueueWaiting}, {State: telemetry.QueueWaiting}, {State: telemetry.QueueEarlier}})
	want := `
# HELP tare_alter_lock_tries_total Statements and swaps that waited for the table's lock.
# TYPE tare_alter_lock_tries_total counter
tare_alter_lock_tries_total 2
# HELP tare_alter_old_table_until_timestamp_seconds When the old table is dropped. Absent: none is kept.
# TYPE tare_alter_old_table_until_timestamp_seconds gauge
tare_alter_old_table_until_timestamp_seconds 1e+09
# HELP tare_alter_queue_entries Entries of the queue by state. Absent: there is no queue.
# TYPE tare_alter_queue_entries gauge
tare_alter_queue_entries{state="` + string(telemetry.QueueEarlier) + `"} 1
tare_alter_queue_entries{state="` + string(telemetry.QueueWaiting) + `"} 2
# HELP tare_alter_swap_pause_seconds From the request for the lock to the end of the last swap. Absent: no swap.
# TYPE tare_alter_swap_pause_seconds gauge
tare_alter_swap_pause_seconds 1.5
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "tare_alter_lock_tries_total", "tare_alter_old_table_until_timestamp_seconds", "tare_alter_queue_entries", "tare_alter_swap_pause_seconds"); err != nil {
		t.Error(err)
	}
	for i := range shownSteps + 5 {
		m.step([]telemetry.AlterStep{telemetry.StepSwapping, telemetry.StepBack}[i%2])
		m.tried(began, fmt.Errorf("%d", i))
	}
	a = m.status()
	if len(a.Steps) != shownSteps || len(a.Tries) != shownTries || a.Tries[shownTries-1].Error != fmt.Sprint(shownSteps+4) || a.Tries[0].Error != fmt.Sprint(shownSteps+5-shownTries) {
		t.Errorf("%d steps, %d tries", len(a.Steps), len(a.Tries))
	}
}
