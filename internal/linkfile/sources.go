package linkfile

import (
	"slices"
	"strings"
)

// fieldNames lists, for each field, the names of columns that hold it, as plainName
// returns them. The first one that a file has gets the field. Without a field the columns
// are left out.
type fieldNames []struct{ field, names string }

// source is a service with files of its own.
type source struct {
	format Format
	marks  string // names that its files have, plain or in small letters; / stands between names for one
	fields fieldNames
}

// usualNames are the names of columns in files of any source.
var usualNames = fieldNames{
	{"original_url", "originalurl originallink url longurl longlink target targeturl destination destinationurl redirecturl link"},
	{"custom_code", "customcode keyword slug slashtag backhalf custombackhalf code shortcode alias"},
	{"short_url", "shorturl shortlink bitlink link"},
	{"domain", "domain host domainname hostname"},
	{"title", "title name linkname"},
	{"description", "description"},
	{"notes", "notes note comment comments"},
	{"tags", "tags tag labels"},
	{"redirect_status", "redirectstatus redirecttype statuscode"},
	{"forward_query", "forwardquery redirectwithquery"},
	{"forward_path", "forwardpath"},
	{"expires_at", "expiresat expireson expiry expirydate expires expiration expirationdate expirein validuntil expirytime"},
	{"valid_from", "validfrom validsince"},
	{"created_at", "createdat created datecreated creationdate timestamp createdon"},
	{"created_by", "createdby creator owner author"},
	{"active", "active enabled isactive"},
	{"inactive", "banned disabled"},
	{"metadata", "metadata"},
	{"rules", "rules"},
	{"aliases", "aliases"},
	{"custom_short_urls", "custombitlinks"},
	{"expired_url", "expiredurl"},
	{"max_clicks", "maxclicks maxvisits clickslimit clicklimit"},
	{"max_clicks_mode", "maxclicksmode"},
	{"exhausted_url", "exhaustedurl"},
	{"confirm", "confirm"},
	{"click_count", "clickcount clicks visits hits visitcount visitscount totalclicks"},
	{"password", "password"},
	{"password_hash", "passwordhash"},
	{"has_password", "haspassword"},
	{"ios_url", "iosurl ios iphoneurl"},
	{"android_url", "androidurl android"},
	{"country_urls", "countryurls geo"},
	{"expires_in_seconds", "expiresinseconds"},
	{"expires_in_hours", "expiresinhours"},
	{"dedupe", "dedupe"},
}

// sources lists the services. A file belongs to the first one whose marks it has.
var sources = []source{
	{Waypost, "short_code original_url", fieldNames{
		{"custom_code", "customcode"}, {"short_code", "shortcode"}, {"", "shorturl"},
	}},
	{"bitly", "longurl custombitlinks/bitlink/link", fieldNames{
		{"short_url", "link bitlink id"},
	}},
	{"firebase", "longdynamiclink/apn/ifl/afl/shortdynamiclink", fieldNames{
		{"dynamic_link", "longdynamiclink longlink link deeplink"},
		{"short_url", "shortdynamiclink shortlink shorturl"},
		{"title", "linkname name"},
		{"", "deeplink"},
		{"apn", "apn androidpackagename"},
		{"isi", "isi iosappstoreid"},
		{"afl", "afl androidfallbacklink"},
		{"ifl", "ifl iosfallbacklink"},
		{"ofl", "ofl"},
		{"utm_source", "utmsource"},
		{"utm_medium", "utmmedium"},
		{"utm_campaign", "utmcampaign"},
		{"utm_term", "utmterm"},
		{"utm_content", "utmcontent"},
	}},
	{"dub", "shortlink/key destinationurl/expiredurl/trackconversion/externalid", fieldNames{
		{"custom_code", "key"}, {"short_url", "shortlink"}, {"original_url", "destinationurl url"}, {"notes", "comments"},
	}},
	{"rebrandly", "slashtag destination", fieldNames{
		{"custom_code", "slashtag"}, {"domain", "domainname domainfullname domain"}, {"", "shorturl"},
	}},
	{"shortio", "originalurl path", fieldNames{
		{"custom_code", "path"}, {"short_url", "shorturl secureshorturl"}, {"", "secureshorturl idstring id"},
	}},
	{"shlink", "longurl shortcode/shorturl", fieldNames{
		{"original_url", "longurl"},
		{"custom_code", "shortcode customslug"},
		{"short_url", "shorturl"},
		{"click_count", "visits visitscount visitssummarytotal"},
		{"expires_at", "metavaliduntil validuntil"},
		{"valid_from", "metavalidsince validsince"},
		{"max_clicks", "metamaxvisits maxvisits"},
	}},
	{"yourls", "keyword url", fieldNames{{"custom_code", "keyword"}}},
	{"kutt", "address target", fieldNames{
		{"custom_code", "address"}, {"has_password", "password"}, {"", "link shortlink"},
	}},
	{"chhoto", "shortlink longlink", fieldNames{
		{"custom_code", "shortlink"},
	}},
	{"golink", "short long", fieldNames{
		{"go_template", "long"}, {"custom_code", "short"},
	}},
	{"sink", "slug url", fieldNames{
		{"custom_code", "slug"}, {"ios_url", "apple"}, {"android_url", "google"},
	}},
}

// sharedHosts are hosts of services that give codes to all their customers.
var sharedHosts = []string{
	"bit.ly", "bitly.com", "bitly.is", "j.mp", "amzn.to", "rebrand.ly", "dub.sh", "chl.li", "kutt.it", "kutt.to", "short.gy", "shorturl.at",
	"tinyurl.com", "is.gd", "v.gd", "t.ly", "cutt.ly", "ow.ly", "goo.gl",
}

// source returns the names of the format.
func (s *Shape) source() source {
	for _, of := range sources {
		if of.format == s.Format {
			return of
		}
	}
	return source{}
}

// recognise returns the service whose marks the columns have.
func (s *Shape) recognise() Format {
	var names []string
	for _, column := range s.Columns {
		names = append(names, plainName(column), strings.ToLower(strings.TrimSpace(column)))
	}
	for _, of := range sources {
		if !slices.ContainsFunc(strings.Fields(of.marks), func(mark string) bool {
			return !slices.ContainsFunc(strings.Split(mark, "/"), func(name string) bool { return slices.Contains(names, name) })
		}) {
			return of.format
		}
	}
	if s.Layout == JSON {
		return JSONLines
	}
	return CSV
}
