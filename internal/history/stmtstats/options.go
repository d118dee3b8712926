package stmtstats

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/querylog"
)

// Options configure a Table.
type Options struct {
	// Bytes is the maximum memory of the table, including its index. Default: DefaultBytes. With a Dir its
	// file is about as long.
	Bytes int64

	// MaxDigests is the maximum number of Keys that are counted separately. Each (digest, schema, user,
	// backend) counts as one. Default: DefaultMaxDigests.
	MaxDigests int

	// MaxText is the maximum length of a statement's text, in bytes; a longer one is cut. Long texts use at most an
	// eighth of the memory for pages: further ones are cut to about 1 KiB. Default: DefaultMaxText.
	MaxText int

	// Dir is the directory of the table's file, which outlives the process, however it ends. Empty: the
	// counters are lost with the process.
	Dir string

	// Redaction is that of the query log: with RedactNone the slowest calls keep the beginning of their text,
	// with RedactAll no text is kept.
	Redaction querylog.Redaction

	// Turnover is the time in which at most MaxDigests Keys are evicted, so that statements which are called
	// only once do not create series without bound. Default: DefaultTurnover.
	Turnover time.Duration

	// MinIdle is the minimum idle time of a Key before it is evicted. Default: DefaultMinIdle.
	MinIdle time.Duration

	// Now is the clock of eviction. Default: time.Now.
	Now func() time.Time

	// Slog logs files that are set aside. Default: slog.Default.
	Slog *slog.Logger

	// State records the table's file and sets it aside if it is damaged. Default: a new one for Dir.
	State *localstate.Store
}

// Defaults of Options.
const (
	DefaultBytes      = 64 << 20
	DefaultMaxDigests = 20_000
	DefaultMaxText    = 16 << 10
	DefaultTurnover   = 2 * time.Hour
	DefaultMinIdle    = time.Minute
)

// Greatest values of Options.
const (
	MostDigests = 1 << 24  // MaxDigests
	MostText    = 32 << 10 // MaxText
)

// Validate sets defaults and returns an error if o is invalid.
func (o *Options) Validate() error {
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.MaxDigests == 0 {
		o.MaxDigests = DefaultMaxDigests
	}
	if o.MaxText == 0 {
		o.MaxText = DefaultMaxText
	}
	if o.Turnover == 0 {
		o.Turnover = DefaultTurnover
	}
	if o.MinIdle == 0 {
		o.MinIdle = DefaultMinIdle
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Slog == nil {
		o.Slog = slog.Default()
	}
	if o.MaxDigests < 1 || o.MaxDigests > MostDigests {
		return fmt.Errorf("%d digests: want 1 to %d", o.MaxDigests, MostDigests)
	}
	if o.MaxText < pageText || o.MaxText > MostText {
		return fmt.Errorf("texts of %d bytes: want %d to %d", o.MaxText, pageText, MostText)
	}
	if o.Turnover < 0 || o.MinIdle < 0 {
		return errors.New("a duration is negative")
	}
	if least := leastBytes(o.MaxDigests); o.Bytes < least {
		return fmt.Errorf("%d bytes for %d digests: want at least %d", o.Bytes, o.MaxDigests, least)
	}
	return nil
}
