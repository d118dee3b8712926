package binlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// layOut returns a table with all its current columns. It returns an error if the table differs from its
// description.
func layOut(ctx context.Context, c *mysqlconn.Client, t *rowstream.Table) (followedTable, error) {
	f := followedTable{table: t, schema: t.Schema, name: t.Name}
	next := 0
	var wrong error
	_, err := c.Query(ctx, "SELECT COLUMN_NAME, COLUMN_TYPE, EXTRA, TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS WHERE "+t.SchemaCondition()+" ORDER BY ORDINAL_POSITION",
		func(row mysqlwire.TextRow) error {
			f.schema, f.name = string(row[3]), string(row[4])
			if createtable.IsGenerated(string(row[2])) {
				f.all = append(f.all, -1)
				return nil
			}
			switch plain, old := strings.CutSuffix(string(row[1]), createtable.OldTemporal); {
			case wrong != nil:
			case next == len(t.Columns) || t.Columns[next].Name != string(row[0]) || t.Columns[next].FullType != plain:
				wrong = fmt.Errorf("column %s %s is not as it was described", row[0], row[1])
			case old && strings.Contains(plain, "("):
				wrong = fmt.Errorf("column %s: MariaDB keeps its %s in the format of version 5.3, in which its log cannot be read: convert it by ALTER TABLE … FORCE, with mysql56_temporal_format=1", row[0], plain)
			}
			f.all = append(f.all, next)
			next++
			return nil
		})
	if err == nil {
		err = wrong
	}
	if err == nil && next != len(t.Columns) {
		err = fmt.Errorf("it has %d columns and was described with %d", next, len(t.Columns))
	}
	if err == nil && session.IsMariaDB(c.ServerVersion) && t.Engine != "MEMORY" { // hash indexes of MEMORY have no hidden column
		err = f.addHashes(ctx, c)
	}
	if err == nil && strings.HasPrefix(c.ServerVersion, "10.") && session.IsMariaDB(c.ServerVersion) && oldUUIDs(c.ServerVersion) {
		for i := range t.Columns {
			if t.Columns[i].Type == "uuid" {
				err = fmt.Errorf("column %s: MariaDB %s stores UUIDs in a form that its log cannot distinguish; upgrade it to 10.11.5 or later", t.Columns[i].Name, c.ServerVersion)
			}
		}
	}
	if err != nil {
		return f, fmt.Errorf("table %s: %w", t.FullName(), err)
	}
	return f, nil
}

// addHashes adds the hidden columns after the others, which MariaDB logs with the rows: the hash of each
// unique key that is too long for an index of its values.
func (f *followedTable) addHashes(ctx context.Context, c *mysqlconn.Client) error {
	_, err := c.Query(ctx, "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE "+f.table.SchemaCondition()+" AND NON_UNIQUE = 0 AND INDEX_TYPE = 'HASH'",
		func(mysqlwire.TextRow) error {
			f.all = append(f.all, -1)
			return nil
		})
	return err
}

// findName determines the names of a table in the log: if names are case-insensitive, they may differ in case
// from the requested ones. A table that no longer exists keeps its names.
func (f *followedTable) findName(ctx context.Context, c *mysqlconn.Client) error {
	_, err := c.Query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE "+f.table.SchemaCondition(), func(row mysqlwire.TextRow) error {
		f.schema, f.name = string(row[0]), string(row[1])
		return nil
	})
	return err
}

// oldUUIDs reports whether a version of MariaDB 10.x reverses the parts of all UUIDs, not only of those with
// a time.
func oldUUIDs(version string) bool {
	version = strings.TrimPrefix(version, "5.5.5-")
	n := strings.FieldsFunc(version, func(c rune) bool { return c < '0' || c > '9' })
	if len(n) < 3 {
		return true
	}
	minor, _ := strconv.Atoi(n[1])
	patch, _ := strconv.Atoi(n[2])
	return minor < 10 || minor == 10 && patch < 6 || minor == 11 && patch < 5
}

// CheckFollow implements Follower.
func (d *Direct) CheckFollow(ctx context.Context, tables []*rowstream.Table, from Position) error {
	return d.Use(ctx, func(c *mysqlconn.Client) error {
		for _, check := range []func() error{
			func() error { return checkGrants(ctx, c) },
			func() error { return checkLog(ctx, c, rowstream.Schemas(tables)) },
			func() error { return checkTables(ctx, c, tables) },
			func() error { return checkRetention(ctx, c, from) },
		} {
			if err := check(); err != nil {
				return fmt.Errorf("%s cannot be followed: %w", d.Addr(), err)
			}
		}
		return nil
	})
}

// checkSettings returns an error for settings with which changes are not logged as full rows.
func checkSettings(ctx context.Context, c *mysqlconn.Client) error {
	for _, s := range []struct{ name, want, try string }{ // want: one value, or several with "or"
		{"log_bin", "1", "start the server with --log-bin"},
		{"binlog_format", "ROW", "SET GLOBAL binlog_format = ROW, and let the sessions that were open end"},
		{"wsrep_forced_binlog_format", "NONE or ROW", "SET GLOBAL wsrep_forced_binlog_format = NONE: it applies outside of a Galera cluster too"},
		{"binlog_row_image", "FULL", "SET GLOBAL binlog_row_image = FULL, and let the sessions that were open end"},
		{"binlog_row_value_options", "", "SET GLOBAL binlog_row_value_options = ''"},
		{"binlog_order_commits", "1", "SET GLOBAL binlog_order_commits = ON, so that commits are seen in the order in which they are logged"},
	} {
		value, err := session.Variable(ctx, c, s.name)
		if session.IsUnknownVariable(err) {
			continue // a server without this setting
		}
		if err != nil {
			return err
		}
		if !slices.Contains(strings.Split(s.want, " or "), strings.ToUpper(value)) {
			return refuseSetting("%s is %q, and must be %q: %s", s.name, value, s.want, s.try)
		}
	}
	return nil
}

// checkGrants returns an error if the user's grants do not permit reading the log.
func checkGrants(ctx context.Context, c *mysqlconn.Client) error {
	var grants []string
	if _, err := c.Query(ctx, "SHOW GRANTS", func(row mysqlwire.TextRow) error {
		grants = append(grants, string(row[0]))
		return nil
	}); err != nil {
		return err
	}
	for _, g := range grants {
		words, _, _ := strings.Cut(strings.ToUpper(g), " ON ")
		if strings.Contains(words, "ALL PRIVILEGES") && strings.Contains(g, "ON *.*") || strings.Contains(words, "REPLICATION SLAVE") || strings.Contains(words, "REPLICATION REPLICA") {
			return nil
		}
		if !strings.Contains(strings.ToUpper(g), " ON ") {
			return nil // a role, whose grants are not listed: the server refuses later
		}
	}
	return errors.New("the user may not read the binary log: GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO it")
}

// checkTables returns an error for tables with changes that are not logged, and for columns that cannot be
// decoded from events.
func checkTables(ctx context.Context, c *mysqlconn.Client, tables []*rowstream.Table) error {
	logged, err := logsCascades(ctx, c)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if _, err := layOut(ctx, c, t); err != nil {
			return err
		}
		if !logged {
			if err := checkCascades(ctx, c, t); err != nil {
				return err
			}
		}
		for i := range t.Columns {
			if strings.Contains(t.Columns[i].FullType, "COMPRESSED") {
				return fmt.Errorf("table %s: column %s: %w; ALTER TABLE … MODIFY it without COMPRESSED", t.FullName(), t.Columns[i].Name, errCompressed)
			}
		}
	}
	return nil
}

// logsCascades reports whether the server logs the actions of foreign keys on rows of other tables.
func logsCascades(ctx context.Context, c *mysqlconn.Client) (bool, error) {
	native, err := session.Variable(ctx, c, "innodb_native_foreign_keys")
	if session.IsUnknownVariable(err) {
		return false, nil
	}
	return native == "0", err
}

// checkCascades returns an error for a table with foreign keys whose changes are neither logged nor derived.
func checkCascades(ctx context.Context, c *mysqlconn.Client, t *rowstream.Table) error {
	var refused []string
	_, err := c.Query(ctx, "SELECT CONSTRAINT_NAME, CONCAT(' (ON DELETE ', DELETE_RULE, ' ON UPDATE ', UPDATE_RULE, ')') FROM information_schema.REFERENTIAL_CONSTRAINTS"+
		" WHERE CONSTRAINT_SCHEMA = "+session.SchemaText(t.Schema)+" AND TABLE_NAME = "+session.SchemaText(t.Name)+
		" AND (DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION')) ORDER BY 1", func(row mysqlwire.TextRow) error {
		name := string(row[0])
		i := slices.IndexFunc(t.Cascades, func(k rowstream.Cascade) bool { return k.Key.Name == name })
		switch {
		case i < 0:
			refused = append(refused, name+string(row[1]))
		case t.Cascades[i].Refused != "":
			refused = append(refused, name+string(row[1])+": "+t.Cascades[i].Refused)
		}
		return nil
	})
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("table %s: what its foreign keys do to its rows is not logged: %s; MySQL 9.6 and later log it, with innodb_native_foreign_keys = OFF; "+
			"copy it from there, or without option follow", t.FullName(), strings.Join(refused, "; "))
	}
	return err
}

// A logFile is a file of the binary log.
type logFile struct {
	name string
	size int64
}

// logFiles returns the files of the binary log, the oldest first.
func logFiles(ctx context.Context, c *mysqlconn.Client) (files []logFile, err error) {
	_, err = c.Query(ctx, "SHOW BINARY LOGS", func(row mysqlwire.TextRow) error {
		size, err := strconv.ParseInt(string(row[1]), 10, 64)
		files = append(files, logFile{string(row[0]), size})
		return err
	})
	return files, err
}

// checkRetention returns an error if the log no longer has a position.
func checkRetention(ctx context.Context, c *mysqlconn.Client, from Position) error {
	if from.File == "" {
		return nil // the server checks the GTID when reading starts
	}
	files, err := logFiles(ctx, c)
	if err != nil {
		return fmt.Errorf("SHOW BINARY LOGS: %w; GRANT REPLICATION CLIENT", err)
	}
	i := slices.IndexFunc(files, func(f logFile) bool { return f.name == from.File })
	gone := ""
	switch {
	case i < 0:
		gone = "the server no longer has that file"
	case from.Offset > uint64(files[i].size):
		gone = fmt.Sprintf("the file has %d bytes: it belongs to another server, or the log was reset", files[i].size)
	default:
		return nil
	}
	return &StopError{
		Reason: StopLogGone, At: from, What: gone, Try: tryCopyAgain,
	}
}

// tryCopyAgain is the advice where the log no longer has a position.
const tryCopyAgain = "copy the tables again with option restart; before, if the log was purged by its age, keep more of it " +
	"(binlog_expire_logs_seconds, expire_logs_days); RESET MASTER and RESET BINARY LOGS delete all of it"

// CurrentPosition implements Follower.
func (d *Direct) CurrentPosition(ctx context.Context) (Position, error) {
	var text string
	err := d.Use(ctx, func(c *mysqlconn.Client) (err error) {
		text, err = session.ReadPosition(ctx, c)
		switch {
		case session.IsUnseen(err):
			return fmt.Errorf("%w: GRANT REPLICATION CLIENT (MariaDB: BINLOG MONITOR) ON *.* to the account", err)
		case err == nil && text == "":
			return errors.New("the server has no binary log: start it with --log-bin")
		}
		return err
	})
	if err != nil {
		return Position{}, fmt.Errorf("where the binary log of %s ends: %w", d.Addr(), err)
	}
	return ParsePosition(text)
}

// GTIDPosition implements Follower.
func (d *Direct) GTIDPosition(ctx context.Context) (Position, error) {
	p, err := d.CurrentPosition(ctx)
	if err != nil {
		return p, err
	}
	return d.namePosition(ctx, p)
}

// LogBytes implements Follower.
func (d *Direct) LogBytes(ctx context.Context, from, to Position) (int64, error) {
	var files []logFile
	if err := d.Use(ctx, func(c *mysqlconn.Client) (err error) {
		files, err = logFiles(ctx, c)
		return err
	}); err != nil {
		return 0, fmt.Errorf("SHOW BINARY LOGS: %w", err)
	}
	i := slices.IndexFunc(files, func(f logFile) bool { return f.name == from.File })
	j := slices.IndexFunc(files, func(f logFile) bool { return f.name == to.File })
	if i < 0 || j < 0 || from.Compare(to) > 0 {
		return 0, fmt.Errorf("the log of %s does not have all from %s to %s", d.Addr(), from, to)
	}
	n := int64(to.Offset) - int64(from.Offset)
	for _, f := range files[i:j] {
		n += f.size
	}
	return n, nil
}
