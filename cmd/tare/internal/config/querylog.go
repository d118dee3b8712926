package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/taredb/tare/querylog"
)

// QueryLog are the --log-… options of every server.
type QueryLog struct {
	Options querylog.Options     // those that are options as they are
	Sink    querylog.SinkOptions // of --log-file: no Path if there is none

	Redact    querylog.Redaction
	MoreRows  int  // 0: any
	OneIn     int  // 0: all, or none if there is another condition
	PerDigest Rate // 0: no limit
}

// declare adds the options of a server whose records are statements to a section.
func (l *QueryLog) declare(s *Set) {
	s.in("Query log")
	l.declareFile(s)
	l.declareRedaction(s, "literals and bind values")
	s.Bool(&l.Options.OriginalText, "log-original", "also log the statement as received; requires --log-redact none")
	l.Options.Fields = querylog.RecordFields()
	l.declareFilter(s, "'user=app total_ns>10ms orders'", querylog.Filter.CheckRecord)
	l.declareConditions(s, "rows", "digest")
	declareBytes(s, &l.Options.MaxText, "log-max-text", "64KiB", 64, "truncate statements in the log at this length")
	declareBytes(s, &l.Options.MaxBind, "log-max-value", "256", 1, "truncate bind values in the log at this length")
}

// requestLog describes the records of a server for requests about series.
type requestLog struct {
	kind    string   // of the records
	fields  []string // valid names in a filter
	example string   // of a filter
	values  string   // values omitted by --log-redact literals
	rows    string   // quantity of --log-more-rows-than
	digest  string   // key of --log-per-digest
	text    string   // text truncated by --log-max-text; empty: none
}

// declareRequests adds the options of a server whose records are requests to a section.
func (l *QueryLog) declareRequests(s *Set, r requestLog) {
	s.in("Query log")
	l.declareFile(s)
	l.declareRedaction(s, r.values)
	l.Options.Fields = r.fields
	l.declareFilter(s, r.example, func(f querylog.Filter) error { return f.CheckFields(r.kind, r.fields) })
	l.declareConditions(s, r.rows, r.digest)
	if r.text != "" {
		declareBytes(s, &l.Options.MaxText, "log-max-text", "64KiB", 64, "cut "+r.text+" in the log at this length")
	}
}

func (l *QueryLog) declareRedaction(s *Set, values string) {
	declareWords(s, &l.Redact, "log-redact", "redaction of the query log: "+values+", nothing, or every text of the client",
		word[querylog.Redaction]{"literals", querylog.RedactLiterals}, word[querylog.Redaction]{"none", querylog.RedactNone}, word[querylog.Redaction]{"all", querylog.RedactAll})
}

// declareFile adds the options of the log file.
func (l *QueryLog) declareFile(s *Set) {
	s.String(&l.Sink.Path, "log-file", "file", "", "query log: a path, or - for standard output; none when empty")
	declare(s, &l.Sink.Mode, Option{
		Name: "log-file-mode", Kind: "mode", Default: defaultFileMode,
		Help: "permissions of new log files, in octal digits",
	}, parseFileMode, formatFileMode)
	declareWords(s, &l.Sink.Format, "log-format", "format of the query log", word[querylog.Format]{"json", querylog.JSON}, word[querylog.Format]{"text", querylog.Text})
}

// declareFilter adds --log-filter, whose conditions check validates.
func (l *QueryLog) declareFilter(s *Set, example string, check func(querylog.Filter) error) {
	declare(s, &l.Options.Filter, Option{
		Name: "log-filter", Kind: "conditions",
		Help: "log only records that meet all conditions: " + example,
	}, func(text string) (querylog.Filter, error) {
		f, err := querylog.ParseFilter(text)
		if err == nil {
			err = check(f)
		}
		return f, err
	}, querylog.Filter.String)
}

// declareConditions adds the options for sampling, and for the files' limits.
func (l *QueryLog) declareConditions(s *Set, rows, digest string) {
	s.Duration(&l.Options.Sampling.SlowerThan, "log-slower-than", "0", "log only records with at least this duration")
	s.Int(&l.MoreRows, "log-more-rows-than", "0", 0, "log only records with more "+rows+" than this; 0: no condition")
	s.Bool(&l.Options.Sampling.Errors, "log-errors-only", "log only failures")
	s.Int(&l.OneIn, "log-one-in", "0", 0, "log one in this many of the records that meet no other condition; 0: none, or all without conditions")
	s.Rate(&l.PerDigest, "log-per-digest", "0", "log at most this many per second and "+digest+"; 0: no limit")
	declareBytes(s, &l.Sink.Rotation.Bytes, "log-rotate-size", "0", 0, "start a new log file at this size; 0: never")
	s.Duration(&l.Sink.Rotation.Age, "log-rotate-age", "0", "start a new log file at this age; 0: never")
	s.Int(&l.Sink.Rotation.Keep, "log-rotate-keep", "0", 0, "rotated log files to keep; 0: all")
	declareWords(s, &l.Sink.Rotation.Compression, "log-compress", "compression of rotated log files",
		word[querylog.Compression]{"none", querylog.Plain}, word[querylog.Compression]{"gzip", querylog.Gzip}, word[querylog.Compression]{"zstd", querylog.Zstd})
	declareBytesUpTo(s, &l.Options.RingBytes, "log-ring-bytes", "4MiB", 64<<10, 1<<30, "memory for the latest records, for /debug/querylog")
}

// validate refuses an original statement that the redaction would omit.
func (l *QueryLog) validate() error {
	var errs []error
	if l.Options.OriginalText && l.Redact != querylog.RedactNone {
		errs = append(errs, fmt.Errorf("--log-original shows nothing without --log-redact none: "+
			"add it if the log may contain data of users, or omit --log-original"))
	}
	return errors.Join(errs...)
}

// need declares which options have no effect without a file, or without any reader of the log; http is nil where it is always on.
func (l *QueryLog) need(s *Set, http *HTTPAccess) {
	if http != nil {
		shown := []string{"log-redact", "log-filter", "log-slower-than", "log-more-rows-than", "log-errors-only", "log-one-in", "log-per-digest"}
		for _, name := range []string{"log-original", "log-max-text", "log-max-value"} {
			if s.Lookup(name) != nil {
				shown = append(shown, name)
			}
		}
		s.need("with --http off and without --log-file", func() bool { return l.Sink.Path != "" || http.on() }, shown...)
		s.need("with --http off", http.on, "log-ring-bytes")
	}
	s.need("without --log-file", func() bool { return l.Sink.Path != "" }, "log-format")
	path := func() bool { return l.Sink.Path != "" && l.Sink.Path != "-" }
	s.need("without --log-file with a path", path, "log-file-mode", "log-rotate-size", "log-rotate-age", "log-rotate-keep", "log-compress")
	s.need("without --log-rotate-size or --log-rotate-age", func() bool { return l.Sink.Rotation.Bytes != 0 || l.Sink.Rotation.Age != 0 }, "log-rotate-keep", "log-compress")
}

// defaultFileMode makes the log readable by its owner only.
const defaultFileMode = "0600"

// parseFileMode parses permissions in octal digits that include the server's write permission.
func parseFileMode(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf("want permissions in octal digits, such as 0600 or 0640, not %q", s)
	}
	if n&0o200 == 0 {
		return 0, fmt.Errorf("%s does not let Tare write its own file: want at least 0200", s)
	}
	return fs.FileMode(n), nil
}

func formatFileMode(m fs.FileMode) string { return fmt.Sprintf("%04o", uint32(m)) }
