package config

import (
	"errors"
	"time"
)

// A LogFormat is the form of a query log line.
type LogFormat string

// The formats of a query log line.
const (
	LogJSON LogFormat = "json"
	LogText LogFormat = "text"
)

// A LogRedaction is what the query log leaves out.
type LogRedaction string

// The modes of redaction.
const (
	RedactLiterals LogRedaction = "literals" // literals and bind values
	RedactNone     LogRedaction = "none"
	RedactAll      LogRedaction = "all" // every text that a client sent
)

// A LogCompression is how rotated log files are kept.
type LogCompression string

// The compressions of rotated log files.
const (
	CompressNone LogCompression = "none"
	CompressGzip LogCompression = "gzip"
	CompressZstd LogCompression = "zstd"
)

// QueryLog holds the --log-… options that every server takes.
type QueryLog struct {
	File       string // path, "-" for stdout, "" for none
	Format     LogFormat
	Redact     LogRedaction
	Original   bool          // also the statement as it was sent
	SlowerThan time.Duration // 0: any
	MoreRows   int           // 0: any
	ErrorsOnly bool
	OneIn      int  // 0: all, or none when there is another condition
	PerDigest  Rate // 0: no limit
	RotateSize Bytes
	RotateAge  time.Duration
	Compress   LogCompression
	RingBytes  Bytes
	RotateKeep int // 0: all
	MaxText    Bytes
	MaxValue   Bytes
}

// declare adds the options to a section.
func (l *QueryLog) declare(s *Set) {
	s.String(&l.File, "log-file", "file", "", "query log: a path, or - for standard output; none when empty")
	Enum(s, &l.Format, "log-format", "form of a line of the query log", LogJSON, LogText)
	Enum(s, &l.Redact, "log-redact", "what the query log leaves out: literals and bind values, nothing, or every text of the client",
		RedactLiterals, RedactNone, RedactAll)
	s.Bool(&l.Original, "log-original", "log the statement as it was sent too, under --log-redact")
	s.Duration(&l.SlowerThan, "log-slower-than", "0", "log only what took at least this long")
	s.Int(&l.MoreRows, "log-more-rows-than", "0", 0, "log only what returned more rows than this; 0 is no condition")
	s.Bool(&l.ErrorsOnly, "log-errors-only", "log only what failed")
	s.Int(&l.OneIn, "log-one-in", "0", 0, "log one in this many of what meets no other condition, with the factor in the line; 0 logs none of those, or all without a condition")
	s.Rate(&l.PerDigest, "log-per-digest", "0", "log at most so many a second of one digest; 0 is no limit")
	s.Bytes(&l.RotateSize, "log-rotate-size", "0", 0, "start a new log file at this size; 0 never does")
	s.Duration(&l.RotateAge, "log-rotate-age", "0", "start a new log file at this age; 0 never does")
	s.Int(&l.RotateKeep, "log-rotate-keep", "0", 0, "rotated log files to keep; 0 keeps all")
	Enum(s, &l.Compress, "log-compress", "compression of log files that were rotated out", CompressNone, CompressGzip, CompressZstd)
	s.Bytes(&l.RingBytes, "log-ring-bytes", "4MiB", 64<<10, "memory that keeps the latest records for /debug/querylog")
	s.Bytes(&l.MaxText, "log-max-text", "64KiB", 64, "cut statements in the log at this length")
	s.Bytes(&l.MaxValue, "log-max-value", "256", 1, "cut bind values in the log at this length")
}

// validate refuses options that would have no effect.
func (l *QueryLog) validate() error {
	var errs []error
	if l.File == "" || l.File == "-" {
		switch {
		case l.RotateSize != 0:
			errs = append(errs, errors.New("--log-rotate-size needs --log-file with a path"))
		case l.RotateAge != 0:
			errs = append(errs, errors.New("--log-rotate-age needs --log-file with a path"))
		}
	}
	if l.RotateKeep != 0 && l.RotateSize == 0 && l.RotateAge == 0 {
		errs = append(errs, errors.New("--log-rotate-keep needs --log-rotate-size or --log-rotate-age"))
	}
	if l.Compress != CompressNone && l.RotateSize == 0 && l.RotateAge == 0 {
		errs = append(errs, errors.New("--log-compress needs --log-rotate-size or --log-rotate-age"))
	}
	if l.Original && l.Redact == RedactAll {
		errs = append(errs, errors.New("--log-original shows nothing under --log-redact all"))
	}
	return errors.Join(errs...)
}
