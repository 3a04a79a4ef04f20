import{Oa as o,a as p,c as m}from"./chunk-H7VIE77O.js";m(p(o,null),document.getElementById("app"));
