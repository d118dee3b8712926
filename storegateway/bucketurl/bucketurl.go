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
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"
	"github.com/thanos-io/objstore/providers/s3"
	"go.yaml.in/yaml/v3"
)

// A URL locates a bucket of blocks. It contains no secrets:
//
//	file:///var/lib/prometheus
//	s3://bucket/prefix?endpoint=minio.example.net:9000&region=eu-west-1&path_style=true
//
// The parameters of s3 are endpoint (default: Amazon's for the region), region, insecure (true: HTTP),
// path_style (true: the bucket is in the path, not in the host name), ca_file, cert_file, key_file,
// server_name and skip_verify (TLS), and config_file.
//
// Credentials come from config_file, a YAML file in the format of Thanos' --objstore.config-file (type and
// config), otherwise from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, otherwise from the
// file of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_PROFILE, otherwise from the machine's
// role.
type URL struct {
	dir    string // of file://, clean and absolute
	bucket string // of s3://
	prefix string // of s3://; without slashes at its ends
	config s3.Config
	file   string // config_file
	text   string
}

var (
	// errURLShape does not quote the URL, which may contain a key by mistake.
	errURLShape = errors.New("want file:///path or s3://bucket?endpoint=host:port&region=…")

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
	switch {
	case u.Scheme == "file":
		return parseFileURL(u)
	case u.Scheme == "s3" && u.Host != "" && u.Opaque == "" && u.Fragment == "":
		return parseS3URL(u)
	}
	return URL{}, errURLShape
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
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return URL{}, errors.New("the parameters of the bucket URL are not percent-encoded")
	}
	b := URL{bucket: u.Host, prefix: strings.Trim(path.Clean("/"+u.Path), "/"), config: s3.DefaultConfig}
	b.text = (&url.URL{Scheme: "s3", Host: u.Host, Path: b.prefix, RawQuery: query.Encode()}).String()
	b.file = query.Get("config_file")
	if b.file != "" {
		if err := b.readConfig(); err != nil {
			return URL{}, err
		}
	}
	for _, key := range sortedKeys(query) {
		values := query[key]
		if len(values) > 1 {
			return URL{}, fmt.Errorf("bucket parameter %s is given %d times", key, len(values))
		}
		if err := b.set(key, values[0]); err != nil {
			return URL{}, err
		}
	}
	b.config.Bucket = b.bucket
	if b.config.Endpoint == "" {
		b.config.Endpoint = "s3.amazonaws.com"
		if b.config.Region != "" {
			b.config.Endpoint = "s3." + b.config.Region + ".amazonaws.com"
		}
	}
	return b, nil
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

// readConfig reads config_file, whose bucket and prefix must be missing or equal to the URL's.
func (b *URL) readConfig() error {
	text, err := os.ReadFile(b.file)
	if err != nil {
		return fmt.Errorf("read the bucket's config_file: %w", err)
	}
	var file struct {
		Type   string    `yaml:"type"`
		Prefix string    `yaml:"prefix"`
		Config yaml.Node `yaml:"config"`
	}
	// YAML errors quote the lines that they are about, and these lines contain keys.
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if decoder.Decode(&file) != nil {
		return fmt.Errorf("bucket config_file %s: want the keys type, config and prefix", b.file)
	}
	if !strings.EqualFold(file.Type, "s3") {
		return fmt.Errorf("bucket config_file %s: want type: S3", b.file)
	}
	config, err := s3ConfigOf(&file.Config)
	if err != nil {
		return fmt.Errorf("bucket config_file %s: %w", b.file, err)
	}
	if config.Bucket != "" && config.Bucket != b.bucket {
		return fmt.Errorf("bucket config_file %s is for bucket %q, the URL for %q", b.file, config.Bucket, b.bucket)
	}
	b.config = config
	if b.prefix == "" {
		b.prefix = strings.Trim(path.Clean("/"+file.Prefix), "/")
	}
	return nil
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
	if b.dir != "" {
		parts = []string{"file", b.dir}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return [16]byte(sum[:16])
}

// maxS3Retries bounds the retries of idempotent requests by the S3 client. The gateway retries too, with its
// own deadlines.
const maxS3Retries = 3

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
	return errors.As(err, &s3) && s3.Code == "NoSuchBucket"
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
		return bucket, nil
	}
	config := b.config
	if config.MaxRetries == 0 {
		config.MaxRetries = maxS3Retries
	}
	bucket, err := s3.NewBucketWithConfig(log.NewNopLogger(), config, "tare", nil)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", b.text, err)
	}
	if b.prefix != "" {
		return objstore.NewPrefixedBucket(bucket, b.prefix), nil
	}
	return bucket, nil
}
