# Install rules: `cmake --install build/release --prefix P`, then an outside project says find_package(Troupe) and links
# troupe::troupe. Headers keep their folders below include/troupe.
include(CMakePackageConfigHelpers)

get_property(TROUPE_LIBRARIES GLOBAL PROPERTY TROUPE_LIBRARIES)
add_library(troupe_troupe INTERFACE)
target_link_libraries(troupe_troupe INTERFACE ${TROUPE_LIBRARIES})
set_target_properties(troupe_troupe PROPERTIES EXPORT_NAME troupe)
add_library(troupe::troupe ALIAS troupe_troupe)

install(TARGETS troupe_troupe ${TROUPE_LIBRARIES} EXPORT TroupeTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/troupe)
install(EXPORT TroupeTargets NAMESPACE troupe:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Troupe)
install(DIRECTORY runtime comm kernels models actors DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe FILES_MATCHING PATTERN "*.h")
install(TARGETS troupe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TroupeConfig.cmake.in ${CMAKE_BINARY_DIR}/TroupeConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Troupe)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TroupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TroupeConfig.cmake ${CMAKE_BINARY_DIR}/TroupeConfigVersion.cmake
  tools/dev/cmake/FindCAF.cmake tools/dev/cmake/FindHttplib.cmake tools/dev/cmake/FindXxhash.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Troupe)
