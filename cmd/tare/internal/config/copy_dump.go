package config

import (
	"errors"
	"fmt"

	"github.com/taredb/tare/internal/store/bucketurl"
)

// A CopyTarget is the value of --to: a server, or a directory or bucket for a dump.
type CopyTarget struct {
	MySQL ControlURL
	Dump  bucketurl.URL // zero: not a dump
}

// String returns the URL with the password masked.
func (t CopyTarget) String() string {
	if t.IsDump() {
		return t.Dump.String()
	}
	return t.MySQL.String()
}

// IsDump reports whether a dump is written.
func (t CopyTarget) IsDump() bool { return t.Dump.String() != "" }

func parseCopyTarget(text string) (t CopyTarget, err error) {
	if bucketurl.HasScheme(text) {
		t.Dump, err = bucketurl.Parse(text)
		return t, err
	}
	if t.MySQL, err = parseControlURL(text); err != nil {
		err = fmt.Errorf("%w; or file:///directory or s3://bucket/prefix for a dump", err)
	}
	return t, err
}

// validateDump reports options that do not apply when a dump is written or loaded.
func (c *Copy) validateDump() (errs []error) {
	writes, loads := c.To.IsDump(), c.From.IsDump()
	refuse := func(given bool, text string) {
		if given {
			errs = append(errs, errors.New(text))
		}
	}
	if !writes && !loads {
		return nil
	}
	refuse(writes && loads, "--from and --to are both dumps: copy the files with other tools, such as cp or aws s3 sync")
	refuse(c.Copy.Follow, "--follow: a dump is of one point in time, and has no binary log")
	refuse(c.Cutover.On, "--cutover: clients cannot be switched to or from a dump")
	refuse(c.users, "--users: a dump has no accounts, since their authentication strings are secrets; copy them from server to server, or create them by hand")
	if writes {
		refuse(len(c.names) > 0, "--columns: a dump has all columns; give it when the dump is loaded")
		for i := range c.Copy.Tables {
			t := &c.Copy.Tables[i]
			refuse(t.ToName != "" && t.Source() != t.Target(), fmt.Sprintf("--tables %s=%s: a dump has the names of the source; give others when it is loaded", t.Source(), t.Target()))
		}
		return errs
	}
	refuse(len(c.wheres) > 0, "--where: a dump is no server that evaluates SQL; give it when the dump is written, or select rows by --only-shard")
	return errs
}
