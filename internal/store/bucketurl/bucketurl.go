package bucketurl

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-kit/log"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"
	"github.com/thanos-io/objstore/providers/s3"

	"github.com/taredb/tare/internal/localstate"
)

// A URL locates a bucket of blocks. It contains no secrets:
//
//	file:///var/lib/prometheus
//	s3://bucket/prefix?endpoint=minio.example.net:9000&region=eu-west-1&path_style=true
//	gs://bucket/prefix?config_file=/etc/tare/bucket.yaml
//	azblob://container/prefix?account=metrics
//
// Programs built with the tags gcs and azure open gs and azblob; others return an error from [Parse].
//
// The parameters of s3 are endpoint (default: Amazon's for the region), region, insecure (true: HTTP),
// path_style (true: the bucket is in the path, not in the host name), ca_file, cert_file, key_file,
// server_name and skip_verify (TLS), and config_file.
//
// The parameters of gs are config_file, those of azblob account, endpoint (default: blob.core.windows.net) and
// config_file.
//
// Credentials of s3 come from config_file, a YAML file in the format of Thanos' --objstore.config-file (type and
// config), otherwise from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, otherwise from the
// file of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_PROFILE, otherwise from the machine's
// role. Those of gs and azblob come from config_file, otherwise from the environment, files and role that
// Google's and Azure's libraries search.
type URL struct {
	dir    string // of file://, clean and absolute
	bucket string // of others
	prefix string // of others; without slashes at its ends
	config s3.Config
	cloud  cloud  // of gs:// and azblob://; nil: others
	file   string // config_file
	text   string
}

var (
	// errURLShape does not quote the URL, which may contain a key by mistake.
	errURLShape = errors.New("want file:///path, s3://bucket?endpoint=host:port&region=…, gs://bucket or azblob://container?account=…")

	errURLSecret = errors.New("a bucket URL holds no credentials: give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a shared credentials file, or config_file=")
)

// Parse parses a URL. Its errors do not quote values of the URL.
func Parse(s string) (URL, error) {
	u, err := url.Parse(s)
	if err != nil { // url.Error would quote the URL
		return URL{}, errURLShape
	}
	if u.User != nil {
		return URL{}, errURLSecret
	}
	if u.Scheme == "file" {
		return parseFileURL(u)
	}
	if u.Host == "" || u.Opaque != "" || u.Fragment != "" {
		return URL{}, errURLShape
	}
	switch u.Scheme {
	case "s3":
		return parseS3URL(u)
	case "gs":
		return parseCloudURL(u, parseGCS)
	case "azblob":
		return parseCloudURL(u, parseAzure)
	}
	return URL{}, errURLShape
}

// HasScheme reports whether a text begins with the scheme of a bucket's URL.
func HasScheme(text string) bool {
	scheme, _, found := strings.Cut(text, "://")
	return found && slices.Contains([]string{"file", "s3", "gs", "azblob"}, scheme)
}

func parseFileURL(u *url.URL) (URL, error) {
	switch {
	case u.Host != "" || u.Opaque != "" || !filepath.IsAbs(u.Path):
		return URL{}, errors.New("a file bucket has an absolute path, with three slashes: file:///var/lib/prometheus")
	case u.RawQuery != "" || u.Fragment != "":
		return URL{}, errors.New("a file bucket takes no parameters")
	}
	dir := filepath.Clean(u.Path)
	return URL{dir: dir, text: (&url.URL{Scheme: "file", Path: dir}).String()}, nil
}

func parseS3URL(u *url.URL) (URL, error) {
	b, query, err := parseLocation(u)
	if err != nil {
		return URL{}, err
	}
	b.config = s3Defaults()
	if b.file != "" {
		if err := b.readS3Config(); err != nil {
			return URL{}, err
		}
	}
	if err := setAll(query, b.set); err != nil {
		return URL{}, err
	}
	b.config.Bucket = b.bucket
	check := s3utils.CheckValidBucketName
	if strings.HasSuffix(b.config.Endpoint, ".amazonaws.com") || b.config.Endpoint == "" {
		check = s3utils.CheckValidBucketNameStrict
	}
	if check(b.bucket) != nil && !s3utils.IsS3ExpressBucket(b.bucket) {
		return URL{}, errors.New("the bucket URL has a name that no bucket of S3 can have: want 3 to 63 lower-case letters, digits, dots and hyphens")
	}
	if b.config.Endpoint == "" {
		b.config.Endpoint = "s3.amazonaws.com"
		if b.config.Region != "" {
			b.config.Endpoint = "s3." + b.config.Region + ".amazonaws.com"
		}
	}
	return b, nil
}

// parseLocation parses the parts that the URLs of all kinds but file have.
func parseLocation(u *url.URL) (URL, url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return URL{}, nil, errors.New("the parameters of the bucket URL are not percent-encoded")
	}
	b := URL{bucket: u.Host, prefix: strings.Trim(path.Clean("/"+u.Path), "/"), file: query.Get("config_file")}
	b.text = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: b.prefix, RawQuery: query.Encode()}).String()
	return b, query, nil
}

// setAll calls set for each parameter, in the order of their names.
func setAll(query url.Values, set func(key, value string) error) error {
	for _, key := range sortedKeys(query) {
		values := query[key]
		if len(values) > 1 {
			return fmt.Errorf("bucket parameter %s is given %d times", key, len(values))
		}
		if err := set(key, values[0]); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(v url.Values) []string {
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// set parses one parameter. Its errors do not quote the values of unknown parameters, which may be misplaced
// secrets.
func (b *URL) set(key, value string) (err error) {
	c := &b.config
	switch key {
	case "endpoint":
		// Accept a scheme: operators copy whole addresses.
		if rest, ok := strings.CutPrefix(value, "http://"); ok {
			value, c.Insecure = rest, true
		} else if rest, ok := strings.CutPrefix(value, "https://"); ok {
			value = rest
		}
		c.Endpoint = strings.TrimSuffix(value, "/")
		if strings.ContainsAny(c.Endpoint, "/@?#") || c.Endpoint == "" {
			return errors.New("bucket parameter endpoint: want host or host:port")
		}
	case "region":
		c.Region = value
	case "insecure":
		c.Insecure, err = strconv.ParseBool(value)
	case "path_style":
		var style bool
		style, err = strconv.ParseBool(value)
		c.BucketLookupType = s3.VirtualHostLookup
		if style {
			c.BucketLookupType = s3.PathLookup
		}
	case "ca_file":
		c.HTTPConfig.TLSConfig.CAFile = value
	case "cert_file":
		c.HTTPConfig.TLSConfig.CertFile = value
	case "key_file":
		c.HTTPConfig.TLSConfig.KeyFile = value
	case "server_name":
		c.HTTPConfig.TLSConfig.ServerName = value
	case "skip_verify":
		// objstore reads only one of the two fields.
		c.HTTPConfig.InsecureSkipVerify, err = strconv.ParseBool(value)
		c.HTTPConfig.TLSConfig.InsecureSkipVerify = c.HTTPConfig.InsecureSkipVerify
	case "config_file":
	case "access_key", "secret_key", "session_token":
		return errURLSecret
	default:
		return errors.New("a bucket parameter is unknown; there are endpoint, region, insecure, path_style, ca_file, cert_file, key_file, server_name, skip_verify and config_file")
	}
	if err != nil {
		return fmt.Errorf("bucket parameter %s: want true or false", key)
	}
	return nil
}

// readS3Config reads config_file, whose bucket and prefix must be missing or equal to the URL's.
func (b *URL) readS3Config() error {
	config := s3Defaults()
	config.PutUserMetadata = nil // a map shared by the package; nothing is written
	if err := b.readConfig("S3", &config); err != nil {
		return err
	}
	b.config = config
	return b.checkBucket(config.Bucket)
}

// Local returns the directory of a file bucket, or "" for other buckets.
func (b URL) Local() string { return b.dir }

// Plain reports whether the bucket is reached by HTTP without TLS.
func (b URL) Plain() bool { return b.dir == "" && b.config.Insecure }

// String returns the URL, which contains no secrets.
func (b URL) String() string { return b.text }

// Identity returns a hash of the kind of the bucket and its location: endpoint, name and prefix, or the directory.
// Processes that reach one bucket by the same URL have the same identity, whatever their credentials are.
func (b URL) Identity() [16]byte {
	parts := []string{"s3", b.config.Endpoint, b.bucket, b.prefix}
	switch {
	case b.dir != "":
		parts = []string{"file", b.dir}
	case b.cloud != nil:
		parts = append(b.cloud.identity(), b.bucket, b.prefix)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return [16]byte(sum[:16])
}

// maxIdleConns is the number of idle connections that are kept to a bucket: as many as a query has requests in flight.
const maxIdleConns = 128

func s3Defaults() s3.Config {
	c := s3.DefaultConfig
	c.HTTPConfig.MaxIdleConns, c.HTTPConfig.MaxIdleConnsPerHost = maxIdleConns, maxIdleConns
	return c
}

// maxRetries bounds the attempts of idempotent requests by the clients. The gateway retries too, with its own
// deadlines.
const maxRetries = 3

// Create creates the directory of a file bucket, accessible to this user only, if its parent exists. Buckets
// of other kinds must exist.
func (b URL) Create() error {
	if b.dir == "" {
		return nil
	}
	err := os.Mkdir(b.dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		parent := filepath.Dir(b.dir)
		return fmt.Errorf("create bucket %s: %s does not exist: run mkdir -p %s, or choose another path", b.text, parent, parent)
	case err != nil:
		return fmt.Errorf("create bucket %s: %w", b.text, err)
	}
	return nil
}

// Missing reports whether an error of a bucket's call means that the bucket does not exist.
func Missing(err error) bool {
	var s3 minio.ErrorResponse
	return errors.As(err, &s3) && s3.Code == "NoSuchBucket" || missingGCS(err) || missingAzure(err)
}

// Open returns the bucket. It sends no request: the first sync finds out whether the bucket is readable.
func (b URL) Open() (objstore.Bucket, error) {
	if b.dir != "" {
		info, err := os.Stat(b.dir)
		if err != nil {
			return nil, fmt.Errorf("open bucket: %w", err)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("open bucket: %s is not a directory", b.dir)
		}
		bucket, err := filesystem.NewBucket(b.dir)
		if err != nil {
			return nil, fmt.Errorf("open bucket %s: %w", b.text, err)
		}
		return dirBucket{bucket, b.dir}, nil
	}
	bucket, err := b.openRemote()
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", b.text, err)
	}
	bucket = checkedBucket{bucket}
	if b.prefix != "" {
		return objstore.NewPrefixedBucket(bucket, b.prefix), nil
	}
	return bucket, nil
}

func (b URL) openRemote() (objstore.Bucket, error) {
	if b.cloud != nil {
		return b.cloud.open(b.bucket)
	}
	config := b.config
	tls := &config.HTTPConfig.TLSConfig
	if err := localstate.AreFiles(tls.CAFile, tls.CertFile, tls.KeyFile); err != nil {
		return nil, fmt.Errorf("read the files of TLS: %w", err)
	}
	if config.MaxRetries == 0 {
		config.MaxRetries = maxRetries
	}
	return s3.NewBucketWithConfig(log.NewNopLogger(), config, "tare", checkListings(b.bucket, s3Pager))
}
