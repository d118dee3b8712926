package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// importTable is created for the import and dropped afterwards.
const importTable = "tare_bench_import"

// ImportOptions configures `tare bench import`.
type ImportOptions struct {
	DSN            string
	Bytes          int64 // total of all statements
	StatementBytes int64 // size of the largest one
	Connections    int
	Every          time.Duration // interval between samples
	Settle         time.Duration // time to sample after the import
	Keep           bool          // keep the table
	Out            string        // a directory for import.svg and import.json; empty: none

	Target TargetOptions

	Progress io.Writer
}

// DefaultImportOptions returns the options of the documented scenario.
func DefaultImportOptions() ImportOptions {
	return ImportOptions{
		Bytes: 1 << 30, StatementBytes: 16 << 20, Connections: 1, Every: 250 * time.Millisecond, Settle: 2 * time.Second,
	}
}

// minStatement is the minimum of StatementBytes: room for some rows.
const minStatement = 4 << 10

// Validate returns an error if o is invalid.
func (o *ImportOptions) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.DSN == "" {
		wrong("--dsn is missing: want %s", dsnForm)
	} else if _, err := newConnector(o.DSN, false); err != nil {
		wrong("--dsn: %w", err)
	}
	if o.StatementBytes < minStatement || o.StatementBytes > 1<<30 {
		wrong("--statement-bytes %d: want %d to 1 GiB", o.StatementBytes, minStatement)
	}
	if o.Bytes < o.StatementBytes {
		wrong("--bytes %d: want at least as many as --statement-bytes, %d", o.Bytes, o.StatementBytes)
	}
	if o.Connections < 1 || o.Connections > 1000 {
		wrong("--connections %d: want 1 to 1000", o.Connections)
	}
	if o.Every <= 0 || o.Settle < 0 {
		wrong("--every %v, --settle %v: want more than 0, and not less than 0", o.Every, o.Settle)
	}
	if err := o.Target.Validate(); err != nil {
		errs = append(errs, err)
	} else if o.Target.PID == 0 && o.Target.Metrics == "" {
		wrong("nothing to weigh: want --pid, --metrics or both")
	}
	return errors.Join(errs...)
}

// Import sends a generated dump to the address while it samples the target's memory.
func Import(ctx context.Context, o ImportOptions) (result ImportResult, err error) {
	if err := o.Validate(); err != nil {
		return ImportResult{}, err
	}
	t, err := newTarget(ctx, o.Target)
	if err != nil {
		return ImportResult{}, err
	}
	defer t.close()
	c, err := newConnector(o.DSN, false)
	if err != nil {
		return ImportResult{}, err
	}
	finish, err := prepareImport(ctx, &o, c)
	if err != nil {
		return ImportResult{}, err
	}
	defer func() { err = errors.Join(err, finish()) }()

	w := &importWatch{target: t, every: o.Every, progress: o.Progress, bytes: o.Bytes}
	return w.run(ctx, &o, c)
}

// prepareImport recreates the table and checks that the server accepts statements of the size.
func prepareImport(ctx context.Context, o *ImportOptions, c *connector) (finish func() error, err error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	limit, err := s.runInt(ctx, nil, "SELECT @@max_allowed_packet")
	if err != nil {
		return nil, err
	}
	if limit <= o.StatementBytes {
		return nil, fmt.Errorf("the server takes packets of %d bytes, statements have up to %d: SET GLOBAL max_allowed_packet, or use a smaller --statement-bytes", limit, o.StatementBytes)
	}
	if err := s.run(ctx, "DROP TABLE IF EXISTS "+importTable); err != nil {
		return nil, err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), createLimit)
	defer cancel()
	// Not interrupted: the server would create the table after the client had disconnected.
	const create = "CREATE TABLE " + importTable + " (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(64) NOT NULL, amount DECIMAL(12,2) NOT NULL, note VARCHAR(255) NOT NULL)"
	if err := s.run(whole, create); err != nil {
		return nil, err
	}
	return func() error {
		if o.Keep {
			return nil
		}
		s, err := c.connect(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		return errors.Join(s.run(context.WithoutCancel(ctx), "DROP TABLE "+importTable), s.close())
	}, nil
}
