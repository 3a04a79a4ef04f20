import{Oa as o,a as p,c as m}from"./chunk-3ML34XCK.js";m(p(o,null),document.getElementById("app"));
