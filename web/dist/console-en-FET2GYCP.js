import{a as p,c as m,qa as o}from"./chunk-JSPXDISZ.js";m(p(o,null),document.getElementById("app"));
