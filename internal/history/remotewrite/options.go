package remotewrite

import (
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/prometheus/common/model"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

// A Version is one of remote write. No version falls back to the other.
type Version string

// The versions.
const (
	V2 Version = "2.0"
	V1 Version = "1.0" // confirms nothing: samples that the receiver drops are not noticed
)

// A Receiver is where samples are sent.
type Receiver struct {
	URL       *url.URL // with the user and password of basic authentication, if any
	Version   Version  // default V2
	TokenFile string   // read for each request; its text is sent as a bearer token
	Tenant    string   // sent as X-Scope-OrgID; "" for none
	CAFile    string   // certificates of authorities (PEM); "" for those of the system

	Timeout time.Duration // of one request; default DefaultTimeout
	Backoff time.Duration // before the second attempt of a request, doubled for each one after it up to 30 times; default DefaultBackoff
}

// Defaults of a Receiver.
const (
	DefaultTimeout = 30 * time.Second
	DefaultBackoff = time.Second
)

// mostBackoff is the longest pause between two attempts, by Backoff.
const mostBackoff = 30

// Check returns an error if the receiver cannot be used: its file of certificates, above all.
func (r Receiver) Check() error {
	if r.URL == nil {
		return nil
	}
	c, err := newClient(r)
	if err == nil {
		c.close()
	}
	return err
}

// An Instance is a database with the series of one instance label.
type Instance struct {
	Name    string // of its position; never that of another one
	Samples *localdb.Database

	// Until is a time in Unix milliseconds: no sample of that time or before will be appended, but a 0 that precedes
	// the first sample of a series.
	Until int64
}

// Options of a Sender.
type Options struct {
	Receiver  Receiver
	Instances func() []Instance // required

	// File is that of the position, in an existing directory; required. A Sender without the file starts with the samples after
	// the newest one.
	File  string
	State *localstate.Store // records File, and sets it aside when it is damaged; required

	Interval time.Duration // between two windows; default DefaultInterval

	// Metadata returns the type and the description of a metric; nil: none are sent.
	Metadata func(metric string) (model.MetricType, string)

	Bytes int // of the requests of a window, before compression; default DefaultBytes

	Now func() time.Time // default time.Now
	Log *slog.Logger     // required
}

// Defaults of Options.
const (
	DefaultInterval = 15 * time.Second
	DefaultBytes    = 16 << 20
)

// Validate sets defaults and returns an error if the options are wrong.
func (o *Options) Validate() error {
	if o.Receiver.Version == "" {
		o.Receiver.Version = V2
	}
	if o.Receiver.Timeout == 0 {
		o.Receiver.Timeout = DefaultTimeout
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.Receiver.Backoff == 0 {
		o.Receiver.Backoff = DefaultBackoff
	}
	var errs []error
	if o.Receiver.URL == nil || o.Instances == nil || o.File == "" || o.State == nil || o.Log == nil {
		errs = append(errs, errors.New("a URL, instances, a file, a state and a log are required"))
	}
	if v := o.Receiver.Version; v != V1 && v != V2 {
		errs = append(errs, errors.New("remote write has the versions 2.0 and 1.0"))
	}
	if o.Receiver.Timeout < 0 || o.Receiver.Backoff < 0 || o.Interval < 0 || o.Bytes < 0 {
		errs = append(errs, errors.New("a time or a size is negative"))
	}
	return errors.Join(errs...)
}
