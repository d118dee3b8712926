//go:build azure

package bucketurl

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/go-kit/log"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/azure"
)

// An azureCloud is a container of Azure Blob Storage.
type azureCloud struct{ config azure.Config }

// containerName matches the names of containers.
var containerName = regexp.MustCompile(`^(\$(root|web)|[a-z0-9](-?[a-z0-9]){2,62})$`)

func parseAzure(b *URL, query url.Values) (cloud, error) {
	if !containerName.MatchString(b.bucket) {
		return nil, errors.New("the bucket URL has a name that no container of Azure can have: want 3 to 63 lower-case letters, digits and single hyphens")
	}
	c := azureCloud{azure.DefaultConfig}
	if b.file != "" {
		if err := b.readConfig("AZURE", &c.config); err != nil {
			return nil, err
		}
		if err := b.checkBucket(c.config.ContainerName); err != nil {
			return nil, err
		}
	}
	if err := setAll(query, c.set); err != nil {
		return nil, err
	}
	if c.config.StorageAccountName == "" {
		return nil, errors.New("an azblob bucket requires a storage account: azblob://container?account=NAME, or storage_account in config_file")
	}
	c.config.StorageCreateContainer = false // containers must exist, as buckets of other kinds
	if c.config.PipelineConfig.MaxTries == 0 {
		c.config.PipelineConfig.MaxTries = maxRetries
	}
	return c, nil
}

// set parses one parameter. Its errors do not quote values.
func (c *azureCloud) set(key, value string) error {
	switch key {
	case "account":
		if value == "" || strings.ContainsAny(value, "./@?#:") {
			return errors.New("bucket parameter account: want the name of a storage account")
		}
		c.config.StorageAccountName = value
	case "endpoint":
		if value == "" || strings.ContainsAny(value, "/@?#") {
			return errors.New("bucket parameter endpoint: want a host such as blob.core.windows.net")
		}
		c.config.Endpoint = value
	case "config_file":
	default:
		return errors.New("a bucket parameter is unknown; azblob has account, endpoint and config_file")
	}
	return nil
}

func (c azureCloud) open(bucket string) (objstore.Bucket, error) {
	c.config.ContainerName = bucket
	return azure.NewBucketWithConfig(log.NewNopLogger(), c.config, "tare", checkListings(bucket, azurePager))
}

// azurePager is that of List Blobs.
var azurePager = pager{
	// The client of objstore dereferences the size of objects, and both attributes.
	lacks: func(r *http.Response) string {
		switch {
		case r.Header.Get("Content-Length") == "":
			return "Content-Length"
		case r.Header.Get("Last-Modified") == "" && r.Request.Method == http.MethodHead:
			return "Last-Modified"
		}
		return ""
	},
	request: func(r *http.Request) (prefix, token string, ok bool) {
		q := r.URL.Query()
		return q.Get("prefix"), q.Get("marker"), q.Get("comp") == "list"
	},
	parse: func(_ url.Values, body []byte) (page, error) {
		var l struct {
			ServiceEndpoint string `xml:",attr"`
			ContainerName   string `xml:",attr"`
			Prefix          string
			Marker          *string
			NextMarker      *string
			Blobs           *struct {
				Blob, BlobPrefix []struct {
					Name struct {
						Encoded bool   `xml:",attr"`
						Text    string `xml:",chardata"`
					}
				}
			}
		}
		if err := decodeXML(body, "EnumerationResults", &l); err != nil {
			return page{}, err
		}
		if l.Blobs == nil || l.NextMarker == nil {
			return page{}, errors.New("it has no Blobs or no NextMarker")
		}
		// Older versions state the container's URL.
		p := page{buckets: []string{path.Base(l.ContainerName)}, prefix: l.Prefix, token: l.Marker, next: *l.NextMarker}
		for _, b := range append(l.Blobs.Blob, l.Blobs.BlobPrefix...) {
			name := b.Name.Text
			if decoded, err := url.PathUnescape(name); b.Name.Encoded && err == nil {
				name = decoded
			}
			p.names = append(p.names, name)
		}
		return p, nil
	},
}

func (c azureCloud) identity() []string {
	return []string{"azblob", c.config.StorageAccountName, c.config.Endpoint}
}

// missingAzure reports whether an error means that a container does not exist.
func missingAzure(err error) bool { return bloberror.HasCode(err, bloberror.ContainerNotFound) }
