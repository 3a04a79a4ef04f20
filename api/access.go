package api

import "time"

// SignIn asks for a session.
type SignIn struct {
	Email       string `json:"email,omitzero" maxLength:"254" example:"ann@example.com" doc:"With password."`
	Password    string `json:"password,omitzero" maxLength:"256" format:"password" writeOnly:"true"`
	SignInToken string `json:"sign_in_token,omitzero" maxLength:"256" writeOnly:"true" doc:"The part of a sign-in link after #, instead of email and password. It is valid once."`
	Code        string `json:"code,omitzero" maxLength:"40" writeOnly:"true" doc:"Of the second factor, or a recovery code; needed by users who have turned it on."`
	Cookie      bool   `json:"cookie,omitzero" doc:"Return the token in a cookie that scripts cannot read, and not in the answer."`
}

// Session is a session that has begun.
type Session struct {
	Token      string        `json:"token,omitzero" doc:"Send it as Authorization: Bearer. It is shown once; left out when a cookie holds it."`
	ExpiresAt  time.Time     `json:"expires_at" doc:"When the session ends unless it is used; every use prolongs it to twelve hours from then, up to thirty days in all."`
	User       User          `json:"user"`
	Workspaces []Affiliation `json:"workspaces"`
}

// Sessions holds the sessions of a user, newest first.
type Sessions struct {
	Sessions []SessionInfo `json:"sessions"`
}

// SessionInfo describes a session, without its token.
type SessionInfo struct {
	ID         int64     `json:"id"`
	Current    bool      `json:"current" doc:"Whether the request was sent with it."`
	Address    string    `json:"address" doc:"The IP address that signed in; empty when it is not known."`
	UserAgent  string    `json:"user_agent" doc:"The program that signed in, as it named itself, in up to 200 bytes."`
	CreatedAt  time.Time `json:"created_at"`
	LastUsedAt time.Time `json:"last_used_at" doc:"True to a minute."`
	ExpiresAt  time.Time `json:"expires_at"`
}

// User is a person who signs in.
type User struct {
	ID    int64  `json:"id"`
	Email string `json:"email"`
	Name  string `json:"name"`
}

// Affiliation is a user's membership of a workspace.
type Affiliation struct {
	Slug string `json:"slug" doc:"Value of the header Waypost-Workspace."`
	Name string `json:"name"`
	Role string `json:"role" enum:"admin,member,viewer"`
}

// Me describes the sender of a request.
type Me struct {
	Credential   string             `json:"credential" enum:"session,key,none" doc:"Kind of credential of the request; none is for the development system."`
	User         *User              `json:"user,omitzero" doc:"The user who has signed in, or owns the key; left out without one."`
	Key          *MeKey             `json:"key,omitzero"`
	Workspace    *MeWorkspace       `json:"workspace,omitzero" doc:"Workspace in which the request acts; left out until one of several is chosen."`
	Scopes       []string           `json:"scopes" doc:"Permissions in that workspace."`
	Operator     bool               `json:"operator" doc:"Whether the sender may operate the whole installation: an administrator of the default workspace, or its key with the scope admin."`
	HasPassword  *bool              `json:"has_password,omitzero" doc:"Whether the user can sign in with a password; for sessions."`
	SecondFactor *SecondFactorState `json:"second_factor,omitzero" doc:"For sessions."`
	Workspaces   []Affiliation      `json:"workspaces" doc:"All workspaces of the user."`
}

// SecondFactorState describes the second factor of a user.
type SecondFactorState struct {
	On                bool `json:"on" doc:"Sign-in asks for a code."`
	RecoveryCodesLeft int  `json:"recovery_codes_left"`
}

// BeginSecondFactor asks for the secret of a second factor.
type BeginSecondFactor struct {
	CurrentPassword string `json:"current_password,omitzero" maxLength:"256" format:"password" writeOnly:"true" doc:"Needed unless the account has no password."`
}

// NewSecondFactor is a second factor that is not confirmed yet.
type NewSecondFactor struct {
	Secret string `json:"secret" doc:"For an authenticator app (TOTP, RFC 6238: SHA-1, six digits, 30 seconds), in base32. It is not shown again."`
	URL    string `json:"otpauth_url" doc:"The same for apps, as a link."`
	QR     string `json:"qr_svg" doc:"QR code of the link, as an SVG document."`
}

// ConfirmSecondFactor turns a second factor on.
type ConfirmSecondFactor struct {
	Code string `json:"code" minLength:"1" maxLength:"40" writeOnly:"true" doc:"The app's present code."`
}

// RecoveryCodes hold codes that each replace one of the app's, once.
type RecoveryCodes struct {
	Codes []string `json:"recovery_codes" doc:"They are not shown again."`
}

// RenewRecoveryCodes asks for other recovery codes.
type RenewRecoveryCodes struct {
	Code string `json:"code" minLength:"1" maxLength:"40" writeOnly:"true" doc:"The app's present code, or a recovery code."`
}

// EndSecondFactor turns a second factor off.
type EndSecondFactor struct {
	CurrentPassword string `json:"current_password,omitzero" maxLength:"256" format:"password" writeOnly:"true" doc:"Needed unless the account has no password."`
	Code            string `json:"code" minLength:"1" maxLength:"40" writeOnly:"true" doc:"The app's present code, or a recovery code."`
}

// MeKey names the API key of a request.
type MeKey struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// MeWorkspace names the workspace of a request.
type MeWorkspace struct {
	ID       int64  `json:"id"`
	Slug     string `json:"slug"`
	Role     string `json:"role" doc:"Role of the user; empty without a user."`
	TimeZone string `json:"time_zone" doc:"Time zone of days without a time: the setting of the workspace."`
}

// MeChange names the fields of the own account to change.
type MeChange struct {
	Name            *string `json:"name,omitzero" minLength:"1" maxLength:"100"`
	Password        *string `json:"password,omitzero" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" doc:"Ends all other sessions of the user."`
	CurrentPassword string  `json:"current_password,omitzero" maxLength:"256" format:"password" writeOnly:"true" doc:"Needed for a new password."`
}

// Invitation lets the owner of an account set its password.
type Invitation struct {
	Token     string    `json:"token" doc:"With it the account's owner sets the password, once (POST /api/v1/invitation). It is not shown again."`
	ExpiresAt time.Time `json:"expires_at"`
}

// AcceptInvitation sets the password of an account.
type AcceptInvitation struct {
	Token    string `json:"token" minLength:"1" maxLength:"256" writeOnly:"true"`
	Password string `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true"`
}

// MemberPage is a page of a workspace's users.
type MemberPage struct {
	Users []Member `json:"users" doc:"By id."`
	Next  string   `json:"next_cursor" doc:"Empty on the last page."`
}

// Member is a user of a workspace.
type Member struct {
	ID        int64     `json:"id"`
	Email     string    `json:"email"`
	Name      string    `json:"name"`
	Role      string    `json:"role" enum:"admin,member,viewer"`
	Disabled  bool      `json:"disabled" doc:"The user cannot sign in, and the user's keys do not work."`
	Shared    bool      `json:"shared" doc:"Operators manage the account, because it is or was in several workspaces."`
	CreatedAt time.Time `json:"created_at" doc:"When the user joined the workspace."`

	HasPassword  bool       `json:"has_password" doc:"False: the user cannot sign in before accepting an invitation."`
	InvitedUntil *time.Time `json:"invited_until" doc:"When the open invitation expires; null without one."`

	Invitation *Invitation `json:"invitation,omitzero" doc:"In the answer to the request that created it."`
}

// NewMember asks for a user of a workspace.
type NewMember struct {
	Email    string `json:"email" minLength:"3" maxLength:"254" example:"ann@example.com" doc:"The user signs in with it. No mail is sent there."`
	Name     string `json:"name,omitzero" maxLength:"100" doc:"Default: the address."`
	Role     string `json:"role" enum:"admin,member,viewer" doc:"A viewer reads, a member also creates and changes links, an admin does all."`
	Password string `json:"password,omitzero" maxLength:"256" format:"password" writeOnly:"true" doc:"For operators only, at least 12 characters. Without it, the answer has an invitation with which the account's owner sets the password."`
}

// AccountChange names the fields of an account to change; nil leaves a field as it is.
type AccountChange struct {
	Name     *string `json:"name,omitzero" minLength:"1" maxLength:"100"`
	Disabled *bool   `json:"disabled,omitzero" doc:"True ends the user's sessions; the keys work again once the user is enabled."`
	Password *string `json:"password,omitzero" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" doc:"For operators only. Ends the user's sessions."`
}

// MemberChange names the fields of a member to change; nil leaves a field as it is.
type MemberChange struct {
	AccountChange
	Role *string `json:"role,omitzero" enum:"admin,member,viewer"`
}

// AccountPage is a page of the users of all workspaces.
type AccountPage struct {
	Users []Account `json:"users" doc:"By id."`
	Next  string    `json:"next_cursor" doc:"Empty on the last page."`
}

// Account is a user as operators see one.
type Account struct {
	ID           int64         `json:"id"`
	Email        string        `json:"email"`
	Name         string        `json:"name"`
	Home         string        `json:"home" doc:"Slug of the workspace that manages the account; empty when operators do."`
	Disabled     bool          `json:"disabled"`
	HasPassword  bool          `json:"has_password" doc:"False: the user cannot sign in before accepting an invitation."`
	SecondFactor bool          `json:"second_factor" doc:"Sign-in asks for a code."`
	InvitedUntil *time.Time    `json:"invited_until" doc:"When the open invitation expires; null without one."`
	CreatedAt    time.Time     `json:"created_at"`
	Workspaces   []Affiliation `json:"workspaces" doc:"All workspaces of the user."`
	Invitation   *Invitation   `json:"invitation,omitzero" doc:"In the answer to the request that created it."`
}

// APIKeyPage is a page of API keys.
type APIKeyPage struct {
	Keys []APIKey `json:"keys" doc:"Newest first. Expired keys are listed for a while."`
	Next string   `json:"next_cursor" doc:"Empty on the last page."`
}

// APIKey is an API key.
type APIKey struct {
	ID          int64      `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Prefix      string     `json:"prefix" example:"wp_live_4fGh" doc:"First characters of the key, to recognise it by."`
	Scopes      []string   `json:"scopes"`
	OwnerID     *int64     `json:"owner_id" doc:"The user whose role bounds the key, and with whose membership it ends. Null: no owner."`
	OwnerEmail  string     `json:"owner_email" doc:"Empty without an owner."`
	RotatedFrom *int64     `json:"rotated_from" doc:"The key that this one replaces."`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at" doc:"Null: never."`
	LastUsedAt  *time.Time `json:"last_used_at" doc:"Accurate to a minute. Null: never."`
	Key         string     `json:"key,omitzero" doc:"The key itself, in the answer to the request that created it. It is not shown again."`
}

// NewAPIKey asks for an API key.
type NewAPIKey struct {
	Name             string     `json:"name" minLength:"1" maxLength:"100"`
	Description      string     `json:"description,omitzero" maxLength:"500"`
	Scopes           []string   `json:"scopes" minItems:"1" maxItems:"4" uniqueItems:"true" enum:"links:read,links:write,analytics:read,admin" doc:"Only scopes that the creator has."`
	ExpiresAt        *time.Time `json:"expires_at,omitzero" doc:"Default: never."`
	ExpiresInSeconds *int64     `json:"expires_in_seconds,omitzero" minimum:"1" maximum:"315360000" doc:"Instead of expires_at."`
}

// WorkspacePage is a page of all workspaces.
type WorkspacePage struct {
	Workspaces []Workspace `json:"workspaces" doc:"By id, deleted ones included."`
	Next       string      `json:"next_cursor" doc:"Empty on the last page."`
}

// Workspace is a workspace.
type Workspace struct {
	ID        int64             `json:"id"`
	Slug      string            `json:"slug"`
	Name      string            `json:"name"`
	Settings  WorkspaceSettings `json:"settings"`
	State     string            `json:"state" enum:"active,closing,closed" doc:"A deleted workspace is closing until none of its links redirects any more."`
	CreatedAt time.Time         `json:"created_at"`
	DeletedAt *time.Time        `json:"deleted_at"`
	Links     *int              `json:"links,omitzero" minimum:"0" maximum:"10000" doc:"How many links the workspace has, also expired ones; at most 10,000 are counted. Only the answer about the own workspace has it."`
}

// WorkspaceSettings are the settings of a workspace.
type WorkspaceSettings struct {
	Dedupe       bool   `json:"dedupe" doc:"The same URL returns the same link, unless a request says otherwise."`
	Events       string `json:"events" enum:"off,sampled,all" doc:"Which clicks are kept one by one, besides the sums of all."`
	EventsSample int    `json:"events_sample" doc:"With sampled: one click of this many is kept."`
	UTM          bool   `json:"utm" doc:"Clicks are counted by the parameters utm_source, utm_medium, utm_campaign, utm_term and utm_content of the request."`
	TimeZone     string `json:"time_zone" example:"Europe/Berlin" doc:"The time zone of days without a time, such as 2030-12-31, in imports, in the console and in flags of the command: a name of the IANA database. A link with such a day in expires_at works through its last moment. Default: UTC. The API itself takes times."`

	UTMTemplates []UTMTemplate `json:"utm_templates" doc:"Which utm parameters the targets of links are to have. The console's forms offer them; the API holds no target to them."`
}

// UTMTemplate lists the utm parameters that the targets of links with a tag are to have.
type UTMTemplate struct {
	Tag        string         `json:"tag,omitzero" maxLength:"64" example:"newsletter" doc:"At most 64 bytes, kept as tags of links are. The template is for links with this tag; without one, for links that no other template is for. Each template has another tag."`
	Parameters []UTMParameter `json:"parameters" minItems:"1" maxItems:"10" doc:"In the order in which they are appended to a target."`
}

// UTMParameter is a parameter of a UTMTemplate.
type UTMParameter struct {
	Name   string   `json:"name" pattern:"^utm_[a-z0-9_]{1,28}$" patternDescription:"utm_ and 1 to 28 characters of a-z, 0-9 and _, such as utm_source" example:"utm_source" doc:"Another one in each parameter of a template."`
	Values []string `json:"values,omitzero" maxItems:"50" minLength:"1" maxLength:"64" doc:"Allowed values: each of 1 to 64 bytes, without commas, control characters and blanks at its ends. Without any: every value."`
}

// NewWorkspace asks for a workspace.
type NewWorkspace struct {
	Slug string `json:"slug" minLength:"1" maxLength:"63" pattern:"^[a-z0-9][a-z0-9-]*$" patternDescription:"letters a to z, digits and hyphens, the first no hyphen, such as marketing" example:"marketing" doc:"Never changes, and is never given to another workspace."`
	Name string `json:"name,omitzero" maxLength:"100" doc:"Default: the slug."`
}

// WorkspaceChange names the fields of a workspace to change; nil leaves a field as it is.
type WorkspaceChange struct {
	Name     *string         `json:"name,omitzero" minLength:"1" maxLength:"100"`
	Settings *SettingsChange `json:"settings,omitzero"`
}

// SettingsChange names the settings of a workspace to change.
type SettingsChange struct {
	Dedupe       *bool   `json:"dedupe,omitzero"`
	Events       *string `json:"events,omitzero" enum:"off,sampled,all"`
	EventsSample *int    `json:"events_sample,omitzero" minimum:"1" maximum:"1000000"`
	UTM          *bool   `json:"utm,omitzero"`
	TimeZone     *string `json:"time_zone,omitzero" minLength:"1" maxLength:"64" example:"Europe/Berlin"`

	UTMTemplates *[]UTMTemplate `json:"utm_templates,omitzero" maxItems:"50" doc:"All templates: 16,384 bytes of JSON at most."`
}
