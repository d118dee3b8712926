package bucketurl

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"

	"github.com/minio/minio-go/v7"
)

// advice is what an operator can do about an error code of S3 or an S3-compatible server.
var advice = map[string]string{
	"AccessDenied":                 "Allow the account s3:ListBucket on the bucket and s3:GetObject on its objects.",
	"AllAccessDisabled":            "Enable the account or the bucket.",
	"InvalidAccessKeyId":           "Correct the access key: AWS_ACCESS_KEY_ID, the credentials file, or config_file.",
	"SignatureDoesNotMatch":        "Correct the secret key, and the region of the bucket URL.",
	"ExpiredToken":                 "Renew the session token.",
	"InvalidToken":                 "Renew the session token.",
	"RequestTimeTooSkewed":         "Set this machine's clock: run NTP.",
	"NoSuchBucket":                 "Create the bucket, or correct its name in the bucket URL.",
	"InvalidBucketName":            "Correct the bucket's name in the bucket URL.",
	"PermanentRedirect":            "Correct the region or the endpoint of the bucket URL.",
	"AuthorizationHeaderMalformed": "Correct the region of the bucket URL.",
	"SlowDown":                     "The bucket limits the rate of requests; the sync is repeated.",
	"InvalidRegion":                "Correct the region of the bucket URL.",
}

// Advice returns what an operator can do about an error of a bucket's call; "" if nothing is known.
func Advice(err error) string {
	if s3, ok := errors.AsType[minio.ErrorResponse](err); ok {
		if text := advice[s3.Code]; text != "" {
			return text
		}
		if s3.StatusCode == http.StatusForbidden || s3.StatusCode == http.StatusUnauthorized {
			return "Correct the credentials, or allow the account to list and read the bucket."
		}
	}
	if Missing(err) {
		return advice["NoSuchBucket"]
	}
	var (
		dns       *net.DNSError
		op        *net.OpError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		listing   *ListingError
	)
	switch {
	case errors.As(err, &dns):
		return "Correct the host in the endpoint of the bucket URL, or this machine's DNS."
	case errors.As(err, &authority):
		return "Add ca_file to the bucket URL, with the authority of the server's certificate."
	case errors.As(err, &host):
		return "Correct the endpoint, or add server_name to the bucket URL."
	case errors.As(err, &listing):
		return "Something between this machine and the bucket responds in its place: check endpoint, proxies and sign-in pages."
	case errors.As(err, &op):
		return "Check the endpoint of the bucket URL, the network and firewalls."
	case errors.Is(err, os.ErrPermission):
		return "Allow this process to read the directory."
	}
	return ""
}
