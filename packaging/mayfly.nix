# SPDX-License-Identifier: Apache-2.0
# A derivation for nixpkgs: callPackage ./mayfly.nix { src = <a release's unpacked tarball>; }
{
  lib,
  stdenv,
  curl,
  elfutils,
  libiberty,
  libmicrohttpd,
  libsodium,
  meson,
  ncurses,
  ninja,
  pkg-config,
  python3,
  scdoc,
  sqlite,
  xz,
  zlib,
  zstd,
  src,
}:

stdenv.mkDerivation {
  pname = "mayfly";
  version = "0.1.0";
  inherit src;

  nativeBuildInputs = [
    meson
    ninja
    pkg-config
    python3
    scdoc
  ];
  buildInputs = [
    curl
    elfutils
    libiberty
    libmicrohttpd
    libsodium
    ncurses
    sqlite
    xz
    zlib
    zstd
  ];
  mesonFlags = [
    "-Donly_unit_tests=true"
    "-Dbench=false"
    "-Db_ndebug=true"
  ];
  # libcurl and libdebuginfod are opened by name.
  postFixup = ''
    patchelf --add-rpath ${lib.makeLibraryPath [ curl elfutils ]} $out/bin/mayfly
  '';
  doCheck = true;
  checkPhase = ''
    meson test --suite unit
  '';

  meta = {
    description = "Memory profiler for production use";
    homepage = "https://mayfly.example";
    license = with lib.licenses; [
      asl20
      mit
      bsd3
    ];
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
    mainProgram = "mayfly";
  };
}
