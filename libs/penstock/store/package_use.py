"""Which jobs need a version of a package, and for what. SQL that other queries over jobs take in.

A whole configuration needs exactly what it names. Layers are merged leaf by leaf, so the name may come from one layer
and the version from another, unless the upper one of the two sets the other leaf as well. Any layer may be dropped, so
layers in between do not count.
"""

from __future__ import annotations

from penstock.config.model import Package
from penstock.store.json import as_json

_DEFAULT = as_json(Package().model_dump(include={"name", "version"}))
# Of the good values of a package that was rejected: they come back in a layer above all others.
_ABOVE_ALL = 2_147_483_647
_BELOW_ALL = -2_147_483_648
_IS_IT = "@> CAST(:package AS jsonb)"
# First by version, of which there are more: most jobs are done with one look at their layers.
_LEAVES = f"""(
            SELECT layer, config->'package' AS package, (SELECT rank FROM layers WHERE layers.name = layer) AS rank
            FROM expected_layers WHERE expected_layers.job = jobs.name AND config->'package' IS NOT NULL
            UNION ALL SELECT NULL, jsonb_object_agg(leaf->'path'->>1, leaf->'old'), {_ABOVE_ALL}
            FROM jsonb_path_query(sync_state.rejected,
                '$.leaves[*] ? (@.path[0] == "package" && exists(@.path[1]))') AS leaf
            WHERE sync_state.rejected IS NOT NULL
            UNION ALL SELECT NULL, '{_DEFAULT}'::jsonb, {_BELOW_ALL})"""
USES_OF_PACKAGE = f"""
        SELECT 'what runs' AS use WHERE running.config->'package' {_IS_IT}
        UNION ALL SELECT 'what runs until a rollout ends' WHERE running.rollout->>'revision' = running.revision::text
            AND running.rollout->'before'->'config'->'package' {_IS_IT}
        UNION ALL SELECT 'what its plan brings' WHERE sync_state.plan->'config'->'package' {_IS_IT}
        UNION ALL SELECT 'the savepoint that its plan restores'
        WHERE sync_state.plan->'restore'->'config'->'package' {_IS_IT}
        UNION ALL SELECT 'the savepoint that it is to be restored from' FROM restores
        WHERE restores.job = jobs.name AND restores.config->'package' {_IS_IT}
        UNION ALL SELECT 'what is to run' FROM expected_configs expected
        WHERE expected.job = jobs.name AND expected.config->'package' {_IS_IT}
        UNION ALL SELECT CASE
            WHEN {_ABOVE_ALL} IN (named.rank, versioned.rank) THEN 'what it may be rolled back to'
            WHEN named.rank = versioned.rank OR versioned.layer IS NULL THEN 'layer ' || named.layer
            WHEN named.layer IS NULL THEN 'layer ' || versioned.layer
            ELSE 'layers ' || named.layer || ' and ' || versioned.layer END
        FROM {_LEAVES} AS versioned CROSS JOIN LATERAL (
            SELECT * FROM {_LEAVES} AS named WHERE named.package->>'name' = CAST(:package AS jsonb)->>'name' AND (
                named.rank = versioned.rank
                OR named.rank > versioned.rank AND named.package->>'version' IS NULL
                OR named.rank < versioned.rank AND versioned.package->>'name' IS NULL)
            OFFSET 0) AS named
        WHERE versioned.package->>'version' = CAST(:package AS jsonb)->>'version'"""
"""What a row of `jobs`, joined to `running` and `sync_state`, needs `:package` for (`package_named`), in words."""


def package_named(name: str, version: str) -> str:
    """A version as `USES_OF_PACKAGE` takes it."""
    return as_json({"name": name, "version": version})
