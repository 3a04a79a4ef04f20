-- +goose Up

-- People who may sign in. home_id is the one workspace whose administrators look
-- after the account; NULL once it is in several, and then only operators do, so
-- that nobody becomes somebody in another workspace by setting a password here.
CREATE TABLE app_user (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    home_id     bigint      REFERENCES workspace,
    email       text        NOT NULL CHECK (email = lower(email) AND octet_length(email) BETWEEN 3 AND 254),
    name        text        NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    password    text        CHECK (password LIKE '$argon2id$%'), -- NULL: nobody can sign in
    created_at  timestamptz NOT NULL DEFAULT now(),
    valid_from  timestamptz NOT NULL DEFAULT now(), -- sessions that began before have ended
    disabled_at timestamptz,
    deleted_at  timestamptz
);
CREATE UNIQUE INDEX app_user_email ON app_user (email) WHERE deleted_at IS NULL;

-- Who is what, where.
CREATE TABLE membership (
    workspace_id bigint      NOT NULL REFERENCES workspace,
    user_id      bigint      NOT NULL REFERENCES app_user,
    role         text        NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX membership_user ON membership (user_id);
ALTER TABLE membership ENABLE ROW LEVEL SECURITY;
ALTER TABLE membership FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON membership USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON membership USING (waypost_system());

-- A workspace sees its members, and changes and makes the accounts that are its own.
ALTER TABLE app_user ENABLE ROW LEVEL SECURITY;
ALTER TABLE app_user FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON app_user USING (home_id = ANY (waypost_workspaces()));
CREATE POLICY shared ON app_user FOR SELECT USING (
    EXISTS (SELECT FROM membership m WHERE m.user_id = app_user.id AND m.workspace_id = ANY (waypost_workspaces())));
CREATE POLICY system ON app_user USING (waypost_system());

-- Who has signed in. Only a hash of the token is kept; no workspace sees it.
CREATE TABLE user_session (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    bigint      NOT NULL REFERENCES app_user,
    hash       bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX user_session_user ON user_session (user_id, id);
CREATE INDEX user_session_expiry ON user_session (expires_at);
ALTER TABLE user_session ENABLE ROW LEVEL SECURITY;
ALTER TABLE user_session FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON user_session USING (waypost_system());

-- A key with an owner allows no more than the owner may do, and ends with the
-- owner's membership.
ALTER TABLE api_key
    ADD COLUMN created_by   bigint REFERENCES app_user,
    ADD COLUMN description  text   NOT NULL DEFAULT '' CHECK (length(description) <= 500),
    ADD COLUMN rotated_from bigint REFERENCES api_key ON DELETE SET NULL,
    ADD COLUMN last_used_at timestamptz;
CREATE INDEX api_key_owner ON api_key (created_by) WHERE created_by IS NOT NULL;
CREATE INDEX api_key_rotation ON api_key (rotated_from) WHERE rotated_from IS NOT NULL;

-- When the last link of a deleted workspace had become a tombstone.
ALTER TABLE workspace ADD COLUMN closed_at timestamptz;
CREATE INDEX workspace_closing ON workspace (id) WHERE deleted_at IS NOT NULL AND closed_at IS NULL;
